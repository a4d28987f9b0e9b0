//! `gt-daemon trace`: what happens to pods, as it happens.
//!
//! On a terminal the live console shows it ([`screen`]). [`lines`] puts messages into words, [`until`] knows when all that was to be seen has been.
//!
//! Owns: what is printed. Refuses: to judge; the daemon has.

pub mod lines;
mod screen;
pub mod until;

use std::{
    io::{self, ErrorKind, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use tokio::time::{MissedTickBehavior, interval};

use self::{lines::Lines, until::UntilGone};
use crate::{
    cli::client::{TraceOptions, TraceOutput},
    client::{self, Messages, Way},
    console::command::{is_possible, replay},
};

/// Shows what happens, until the pods are gone or whoever reads has.
pub fn trace(options: &TraceOptions) -> anyhow::Result<ExitCode> {
    if let Some(path) = &options.screen.replay {
        anyhow::ensure!(
            is_on_screen(options),
            "--replay needs a terminal, and no other --output than auto: run it where a terminal is, or see what a record says by \
             `gt-daemon timeline`"
        );
        let one = options.pods.len() == 1;
        return replay(path, options.screen.speed, options.screen.console(one, options.until_gone));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start; is the process or memory limit of this machine reached?")?;
    let code = runtime.block_on(async {
        let way = Way::open(options.client.choice()).await?;
        let messages = client::connect(&way, &options.wanted()).await?;
        if is_on_screen(options) {
            return screen::show(messages, options).await;
        }
        print(messages, options.output, options.until_gone, &mut io::stdout().lock()).await
    });
    // The thread that reads keys must not hold up the end.
    runtime.shutdown_background();
    code
}

fn is_on_screen(options: &TraceOptions) -> bool {
    options.output == TraceOutput::Auto && is_possible()
}

/// Prints messages, one a line, each at once.
async fn print(
    mut messages: Messages,
    output: TraceOutput,
    until_gone: bool,
    to: &mut impl Write,
) -> anyhow::Result<ExitCode> {
    let mut lines = Lines::default();
    let mut until = UntilGone::default();
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            message = messages.next() => message,
            _ = ticks.tick(), if until_gone => match until.tick(Instant::now()) {
                Some(code) => return Ok(ExitCode::from(code)),
                None => continue,
            },
        };
        let message =
            message.context("no daemon is followed any more: this is a fault in gt, please report it")?;
        let text = match output {
            TraceOutput::Json => serde_json::to_string(&message).ok(),
            TraceOutput::Auto | TraceOutput::Lines => lines.line(&message),
        };
        if let Some(text) = text
            && let Err(error) = writeln!(to, "{text}").and_then(|()| to.flush())
        {
            // Whoever has read this has seen enough.
            return match error.kind() {
                ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
                _ => Err(error).context("cannot write to the standard output"),
            };
        }
        if until_gone && let Some(code) = until.see(&message, Instant::now()) {
            return Ok(ExitCode::from(code));
        }
    }
}
