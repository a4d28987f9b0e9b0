//! The console on a real terminal: tmux has one, types on it and reads what it shows.
//!
//! What is shown are drains that were recorded. Screens are those that the unit tests keep, byte for byte: what the pure
//! part draws is what a terminal shows.

mod child;
mod ends;
mod screens;
#[path = "../common/suite.rs"]
mod suite;
mod terminal;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    if let Some(outcome) = child::child() {
        return outcome;
    }
    let arguments = Arguments::from_args();
    let missing = terminal::missing();
    let cases = screens::cases(missing.as_ref()).into_iter().chain(ends::cases(missing.as_ref()));
    suite::run(&arguments, cases).exit_code()
}
