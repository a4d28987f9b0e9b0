//! The proof of the join: real requests through a real HAProxy and a real Envoy, the real gt-hc beside it, and the real
//! gt-daemon, which has to count what the first two saw.
//!
//! Each case is played `GT_REPEAT` times (10 where that is not set) on a stage of its own. HAProxy's session log, Envoy's
//! counters and tcpdump judge every round; one that disagrees with another fails the case, with all records shown.

mod cases;
mod expected;
mod parts;
mod record;
mod scene;
#[path = "../common/suite.rs"]
mod suite;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use xtask::stage::interrupt;

fn main() -> ExitCode {
    if let Some(outcome) = parts::app() {
        return outcome;
    }
    let mut arguments = Arguments::from_args();
    // One stage at a time: they have the same names.
    arguments.test_threads = Some(1);
    // From here on a signal fails the case that is played, and what it made is removed.
    if let Err(error) = interrupt::install() {
        eprintln!("join: {error:#}");
        return ExitCode::FAILURE;
    }
    suite::run(&arguments, cases::all()).exit_code()
}
