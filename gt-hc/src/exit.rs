//! How the process ends. 1 and 2 mean what they mean in the test harness: the environment is wrong, or the
//! drain did not do its work.

use std::process::ExitCode;

use crate::fsm::{Cause, State};

/// The exit code, for all subcommands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done: the drain ended in CLOSED, every rule holds, the call was accepted.
    Done,
    /// The command line, a value or the environment is wrong, or the server cannot be reached.
    Environment,
    /// The drain timed out with requests in flight; a rule is broken; the call was refused.
    Broken,
    /// The drain timed out and Envoy could not be read; a rule cannot be judged for want of a number.
    Unknown,
    /// Somebody reopened the pod while it drained.
    Reopened,
    /// A signal ended the command before the drain was over.
    Interrupted,
}

impl Exit {
    /// The number the parent process sees.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Environment => 1,
            Self::Broken => 2,
            Self::Unknown => 3,
            Self::Reopened => 4,
            Self::Interrupted => 5,
        }
    }
}

impl Exit {
    /// How a drain ended that came to rest in `state` for `reason` (the word of a cause).
    #[must_use]
    pub fn of_end(state: State, reason: &str) -> Self {
        match state {
            State::Closed => Self::Done,
            State::Fault if reason == Cause::DrainTimeoutActiveUnknown.word() => Self::Unknown,
            State::Fault => Self::Broken,
            State::Open => Self::Reopened,
            State::Draining | State::Closing => Self::Interrupted,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
