//! `gt-daemon completions` and `gt-daemon man`: written from the definition of the command line.

use std::io::{self, Cursor, ErrorKind, Write as _};

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::Cli;

/// Prints what a shell needs to complete gt-daemon's command line.
pub fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut text = Vec::new();
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut text);
    print(&text)
}

/// Prints the manual page (roff) of gt-daemon and, after it, those of its commands.
pub fn man() -> anyhow::Result<()> {
    let mut text = Cursor::new(Vec::new());
    let mut command = Cli::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    for one in command.get_subcommands().filter(|one| one.get_name() != "help") {
        clap_mangen::Man::new(one.clone()).render(&mut text)?;
    }
    print(text.get_ref())
}

fn print(text: &[u8]) -> anyhow::Result<()> {
    match io::stdout().write_all(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to the standard output")
        }
        _ => Ok(()),
    }
}
