//! `trace` on a terminal: the messages on the live console, until all that was to be seen has been.

use std::{
    cell::Cell,
    process::ExitCode,
    time::{Duration, Instant},
};

use futures_util::stream;
use tokio::time::{MissedTickBehavior, interval};

use super::until::UntilGone;
use crate::{
    cli::client::TraceOptions,
    client::Messages,
    console::run::{By, run},
};

/// Shows them; the exit code is that of the pods' ends where these were waited for.
pub(super) async fn show(messages: Messages, options: &TraceOptions) -> anyhow::Result<ExitCode> {
    let until_gone = options.until_gone;
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let code = Cell::new(None);
    let told =
        stream::unfold((messages, UntilGone::default(), ticks), |(mut messages, mut until, mut ticks)| {
            let code = &code;
            async move {
                // The message that was the last to be waited for is shown, too.
                while code.get().is_none() {
                    let message = tokio::select! {
                        message = messages.next() => message?,
                        _ = ticks.tick(), if until_gone => {
                            code.set(until.tick(Instant::now()));
                            continue;
                        }
                    };
                    if until_gone {
                        code.set(until.see(&message, Instant::now()));
                    }
                    return Some((message, (messages, until, ticks)));
                }
                None
            }
        });
    let ended = run(Box::pin(told), options.screen.console(options.pods.len() == 1, until_gone)).await?;
    print!("{}", ended.words());
    Ok(ExitCode::from(code.get().filter(|_| ended.by == By::Over).unwrap_or(ended.code())))
}
