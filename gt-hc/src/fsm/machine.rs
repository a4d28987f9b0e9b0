//! The machine: the present state, since when and why; takes a cause, and changes or refuses.

use std::{fmt, time::SystemTime};

use super::{Cause, State};

/// The state now. Cloned as a whole, so that a reader never sees half of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    state: State,
    since: SystemTime,
    cause: Option<Cause>,
    revision: u64,
    reopened: Option<Reopened>,
    stopping: bool,
}

/// The LB was told 503, and then 200 again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reopened {
    pub from: State,
    pub at: SystemTime,
}

/// What became of an accepted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The state changed from this one.
    Changed { from: State },
    /// The state asked for is the present one.
    Already,
}

/// A call that the present state does not allow; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    pub cause: Cause,
    pub state: State,
    pub why: &'static str,
    /// The calls that would be accepted and change something; empty when there is none.
    pub allowed: Vec<Cause>,
}

impl Machine {
    /// A machine in OPEN.
    #[must_use]
    pub fn new(now: SystemTime) -> Self {
        Self { state: State::Open, since: now, cause: None, revision: 0, reopened: None, stopping: false }
    }

    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// When the present state began.
    #[must_use]
    pub fn since(&self) -> SystemTime {
        self.since
    }

    /// Why the present state began: the word of its cause, or `start`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.cause.map_or("start", Cause::word)
    }

    /// Counts the changes: equal numbers mean the very same stay in a state.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Set in an OPEN that followed a 503 to the LB, until the next drain.
    #[must_use]
    pub fn reopened(&self) -> Option<Reopened> {
        self.reopened
    }

    /// Whether the process was told to end.
    #[must_use]
    pub fn stopping(&self) -> bool {
        self.stopping
    }

    /// From now on the process is to end: no reopening, since an LB would send requests into the end.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Changes the state as `cause` asks, or says why not.
    pub fn apply(&mut self, cause: Cause, now: SystemTime) -> Result<Outcome, Refusal> {
        let (from, to) = (self.state, cause.target());
        if from == to {
            return Ok(Outcome::Already);
        }
        if !self.allows(to) {
            return Err(Refusal { cause, state: from, why: self.why_not(to), allowed: self.allowed() });
        }
        self.reopened = (to == State::Open && !from.open_to_lb()).then_some(Reopened { from, at: now });
        self.state = to;
        self.since = now;
        self.cause = Some(cause);
        self.revision += 1;
        Ok(Outcome::Changed { from })
    }

    fn allows(&self, to: State) -> bool {
        self.state.next().contains(&to) && !(to == State::Open && self.stopping)
    }

    /// The `POST`s that would change something now.
    fn allowed(&self) -> Vec<Cause> {
        Cause::ALL.into_iter().filter(|cause| cause.path().is_some() && self.allows(cause.target())).collect()
    }

    fn why_not(&self, to: State) -> &'static str {
        match (self.state, to) {
            (_, State::Open) if self.stopping => "the process was told to end (SIGTERM)",
            (State::Closed, _) => "CLOSED is final: the pod is about to end; delete it to get a new one",
            (State::Open, State::Closing) => {
                "a 503 before the requests in flight have ended cuts them: drain first"
            }
            (State::Open | State::Draining, State::Closed) => {
                "readiness goes down only after the LB was told 503 and has had time to notice"
            }
            (State::Closing, State::Draining) => "a drain has come further already: the LB is told 503",
            (State::Fault, State::Draining) => "a drain has run into its timeout: reopen, then drain again",
            (State::Fault, State::Closing | State::Closed) => {
                "after a drain timeout both the LB and readiness are told 503 already"
            }
            (_, State::Fault) => "only a drain can run into its timeout",
            _ => "no such transition is declared",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is refused in {}: {}; allowed now: ", self.cause, self.state, self.why)?;
        if self.allowed.is_empty() {
            return f.write_str("nothing");
        }
        for (position, cause) in self.allowed.iter().enumerate() {
            write!(f, "{}{cause}", if position == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
