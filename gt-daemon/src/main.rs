//! `gt-daemon`: see [`gt_daemon::cli`].

use std::process::ExitCode;

use clap::Parser as _;
use gt_daemon::{
    cli::{Cli, Command},
    doctor, logging,
    report::command::report,
    run,
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Run(options) => logging::start(&options.logging).and_then(|()| run::run(*options)),
        Command::Doctor(options) => doctor::doctor(&options),
        Command::Report(options) => report(&options),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("gt-daemon: {error:#}");
            ExitCode::from(1)
        }
    }
}
