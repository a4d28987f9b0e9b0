//! Tests of the executable on the loopback device: the real `gt-hc run` and its commands, against an Envoy
//! that a test scripts, and against the real one.

mod calls;
mod commands;
mod drains;
mod fake_envoy;
mod http;
mod limits;
mod manifests;
mod peers;
mod real;
mod real_envoy;
mod sidecar;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// A test before it becomes a trial; with a reason when it cannot run here.
struct Case {
    name: &'static str,
    skip: Option<String>,
    run: fn() -> anyhow::Result<()>,
}

impl Case {
    fn new(name: &'static str, run: fn() -> anyhow::Result<()>) -> Self {
        Self { name, skip: None, run }
    }

    fn skipped_for(mut self, reason: Option<&String>) -> Self {
        self.skip = reason.cloned();
        self
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let cases = [
        calls::cases(),
        commands::cases(),
        drains::cases(),
        limits::cases(),
        manifests::cases(),
        peers::cases(),
        real::cases(),
    ];
    let trials = cases
        .into_iter()
        .flatten()
        .map(|Case { name, skip, run }| {
            if let Some(reason) = &skip {
                println!("skipped: {name}: {reason}");
            }
            Trial::test(name, move || run().map_err(|error| Failed::from(format!("{error:#}"))))
                .with_ignored_flag(skip.is_some())
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
