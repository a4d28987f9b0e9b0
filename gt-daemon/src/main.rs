//! `gt-daemon`: see [`gt_daemon::cli`].

use std::{env, process::ExitCode};

use clap::Parser as _;
use gt_daemon::{
    cli::{self, Cli, Command},
    doctor, listing, logging,
    report::command::report,
    run, shell, timeline, trace,
};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // On stderr, or for --help on stdout; a closed pipe is nothing to tell of.
            let _printed = error.print();
            return ExitCode::from(cli::refused(&error, env::args_os()));
        }
    };
    let outcome = match cli.command {
        Command::Run(options) => logging::start(&options.logging).and_then(|()| run::run(*options)),
        Command::Doctor(options) => doctor::doctor(&options),
        Command::Report(options) => report(&options),
        Command::Timeline(options) => timeline::timeline(&options),
        Command::Trace(options) => trace::trace(&options),
        Command::Drains(options) => listing::drains(&options),
        Command::Completions { shell } => shell::completions(shell).map(|()| ExitCode::SUCCESS),
        Command::Man => shell::man().map(|()| ExitCode::SUCCESS),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("gt-daemon: {error:#}");
            ExitCode::from(1)
        }
    }
}
