//! The console as a command has it: when it can be, on which stream, and what is left of it.

use std::{
    env,
    io::{IsTerminal as _, stdout},
    path::Path,
    process::ExitCode,
};

use anyhow::Context as _;
use futures_util::Stream;

use super::{
    model::Incoming,
    replay::{
        Recorded,
        pace::{Speed, paced},
    },
    run::{Options, run},
};

/// Whether stdout is a terminal that can show it.
#[must_use]
pub fn is_possible() -> bool {
    stdout().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Shows a stream until its end or a person's, and leaves the verdicts on the terminal.
pub async fn show<S>(stream: S, options: Options) -> anyhow::Result<ExitCode>
where
    S: Stream + Unpin,
    S::Item: Into<Incoming>,
{
    let ended = run(stream, options).await?;
    print!("{}", ended.words());
    Ok(ExitCode::from(ended.code()))
}

/// Shows a recording.
pub fn replay(path: &Path, speed: Speed, options: Options) -> anyhow::Result<ExitCode> {
    let recorded = Recorded::open(path)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start; is the process or memory limit of this machine reached?")?;
    let code = runtime.block_on(show(paced(recorded, speed), options));
    // The thread that reads keys must not hold up the end.
    runtime.shutdown_background();
    code
}
