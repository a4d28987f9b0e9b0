//! This executable as a console: `console child FILE SPEED [NAMESPACE/NAME|first] [until-over|panic|no-colour]`.

use std::{path::Path, process::ExitCode};

use futures_util::StreamExt as _;
use gt_daemon::console::{
    command::{replay, show},
    model::{Incoming, Key},
    replay::{
        Recorded,
        pace::{Speed, paced},
    },
    run::{Open, Options},
    screen::look::Look,
};

/// The outcome of a console, when this process was started to be one.
pub fn child() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (first, rest) = arguments.split_first()?;
    if first != "child" {
        return None;
    }
    Some(match console(rest) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("console: {error:#}");
            ExitCode::from(1)
        }
    })
}

fn console(arguments: &[String]) -> anyhow::Result<ExitCode> {
    let [file, speed, further @ ..] = arguments else { anyhow::bail!("no FILE and SPEED") };
    let speed: Speed = speed.parse().map_err(anyhow::Error::msg)?;
    let has = |word: &str| further.iter().any(|further| further == word);
    let pod = further.iter().find_map(|name| name.split_once('/'));
    let options = Options {
        open: match pod {
            Some((namespace, name)) => {
                Open::Pod(Key { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            None if has("first") => Open::First,
            None => Open::Table,
        },
        until_over: has("until-over"),
        look: Look::of_environment(has("no-colour")),
    };
    if !has("panic") {
        return replay(Path::new(file), speed, options);
    }
    let stream = paced(Recorded::open(Path::new(file))?, speed).inspect(|incoming| {
        let is_last =
            matches!(incoming, Incoming::Message(message) if format!("{message:?}").contains("PodGone"));
        assert!(!is_last, "the test wished it");
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(show(stream, options))
}
