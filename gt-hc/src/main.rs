//! `gt-hc`: see [`gt_hc::cli`].

use std::process::ExitCode;

use clap::Parser as _;
use gt_hc::{
    check::{self, Inputs, Report},
    cli::{CheckOptions, Cli, Command, Flags, ServerOptions},
    command::{self, Call, Client},
    exit::Exit,
    run, say,
    settings::{self, Given, Settings, from_process},
};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap ends with 2, which means here that a drain did not do its work.
            let _closed_pipe = error.print();
            return if error.use_stderr() { Exit::Environment.into() } else { Exit::Done.into() };
        }
    };
    let outcome = match cli.command {
        Command::Run(options) => serve(options.flags()),
        Command::Drain(options) => ask(&options, async |client| command::drain(client).await),
        Command::Check(options) => check(&options),
        Command::State(options) => ask(&options, async |client| command::call(client, Call::State).await),
        Command::Reopen(options) => ask(&options, async |client| command::call(client, Call::Reopen).await),
        Command::CloseLb(options) => ask(&options, async |client| command::call(client, Call::CloseLb).await),
        Command::Close(options) => ask(&options, async |client| command::call(client, Call::Close).await),
    };
    outcome.unwrap_or_else(|error| {
        say::err(error);
        Exit::Environment.into()
    })
}

fn serve(flags: Flags) -> Result<ExitCode, String> {
    let settings = Settings::read(&Given::new(flags, &from_process)).map_err(|error| error.to_string())?;
    run::run(settings)
}

fn ask(options: &ServerOptions, work: impl AsyncFnOnce(Client) -> Exit) -> Result<ExitCode, String> {
    let address =
        settings::server(&Given::new(options.flags(), &from_process)).map_err(|error| error.to_string())?;
    let runtime = run::runtime()?;
    Ok(runtime.block_on(work(Client { address })).into())
}

fn check(options: &CheckOptions) -> Result<ExitCode, String> {
    let given = Given::new(options.times.flags(), &from_process);
    let flags = check::Flags {
        grace_period: options.grace_period.clone(),
        drain_duration: options.drain_duration.clone(),
        p99: options.p99.clone(),
        inter: options.inter.clone(),
        fall: options.fall.clone(),
    };
    let report = Report::new(&Inputs::read(&given, &flags).map_err(|error| error.to_string())?);
    if options.json {
        let text =
            serde_json::to_string_pretty(&report).map_err(|error| format!("cannot write JSON: {error}"))?;
        say::out(text);
    } else {
        say::out(&report);
    }
    Ok(report.exit().into())
}
