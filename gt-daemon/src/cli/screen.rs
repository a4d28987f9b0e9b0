//! How `trace` shows things on a terminal, and what it shows instead of a daemon's words.

use std::path::PathBuf;

use clap::Args;

use crate::console::{
    replay::pace::Speed,
    run::{Open, Options},
    screen::look::Look,
};

/// The live console; docs/console.md has the whole.
#[derive(Clone, Debug, Args)]
pub struct ScreenOptions {
    /// No colours; so it is with NO_COLOR set.
    #[arg(long)]
    pub no_color: bool,
    /// Show what was recorded: a stream as -o json writes it (- for stdin), or a drain's record.
    #[arg(long, value_name = "FILE|DIR")]
    pub replay: Option<PathBuf>,
    /// How fast a recording is shown: so many times as it happened, or max.
    #[arg(long, value_name = "TIMES", default_value = "1", requires = "replay")]
    pub speed: Speed,
}

impl ScreenOptions {
    /// What the console is to show; `is_one`: that is one pod.
    #[must_use]
    pub fn console(&self, is_one: bool, until_over: bool) -> Options {
        let open = if is_one { Open::First } else { Open::Table };
        Options { open, until_over, look: Look::of_environment(self.no_color) }
    }
}
