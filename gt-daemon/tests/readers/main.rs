//! Tests of what reads inside pods: namespaces of their own, and a real Envoy where there is one.

mod dial;
mod drains;
mod envoy;
mod haproxy;
mod hc;
mod lb;
mod observe;
mod real_envoy;
mod scripted;
#[path = "../common/suite.rs"]
mod suite;

use std::process::ExitCode;

use libtest_mimic::Arguments;

use suite::Case;

/// Runs a test's own part on a runtime as the daemon has one.
fn on_runtime(test: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(test)
}

fn main() -> ExitCode {
    if let Some(outcome) = dial::child() {
        return outcome;
    }
    let arguments = Arguments::from_args();
    let cases = [dial::cases(), drains::cases(), envoy::cases(), hc::cases(), lb::cases(), observe::cases()];
    suite::run(&arguments, cases.into_iter().flatten()).exit_code()
}
