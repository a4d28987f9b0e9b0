//! The five states: what each answers, and where each may go.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A state of the gate that the LB sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// Ordinary work.
    Open,
    /// The requests in flight end; the LB still sees 200, so that it cuts none of them.
    Draining,
    /// Nothing is in flight; the LB is told 503, and has time to notice.
    Closing,
    /// Readiness is 503 too; the pod may end.
    Closed,
    /// The drain timeout passed before the count of requests was zero.
    Fault,
}

impl State {
    pub const ALL: [Self; 5] = [Self::Open, Self::Draining, Self::Closing, Self::Closed, Self::Fault];

    /// The states that may follow.
    ///
    /// CLOSED is final: preStop returns in it, and what comes next is SIGTERM. FAULT is left only by a
    /// person: it stays visible as long as the pod does.
    #[must_use]
    pub const fn next(self) -> &'static [Self] {
        match self {
            Self::Open => &[Self::Draining],
            Self::Draining => &[Self::Closing, Self::Fault, Self::Open],
            Self::Closing => &[Self::Closed, Self::Open],
            Self::Closed => &[],
            Self::Fault => &[Self::Open],
        }
    }

    /// Whether `/health_check.html`, which the LB reads, answers 200.
    #[must_use]
    pub const fn open_to_lb(self) -> bool {
        matches!(self, Self::Open | Self::Draining)
    }

    /// Whether `/health`, the readiness of the pod, answers 200.
    #[must_use]
    pub const fn ready(self) -> bool {
        matches!(self, Self::Open | Self::Draining | Self::Closing)
    }

    /// The name in logs and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::Draining => "DRAINING",
            Self::Closing => "CLOSING",
            Self::Closed => "CLOSED",
            Self::Fault => "FAULT",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises the whole rule against a list written by hand, so that no edit adds a way by accident.
    #[test]
    fn the_declared_transitions() {
        let declared: Vec<_> = State::ALL
            .into_iter()
            .flat_map(|from| from.next().iter().map(move |to| format!("{from}>{to}")))
            .collect();
        assert_eq!(
            declared,
            [
                "OPEN>DRAINING",
                "DRAINING>CLOSING",
                "DRAINING>FAULT",
                "DRAINING>OPEN",
                "CLOSING>CLOSED",
                "CLOSING>OPEN",
                "FAULT>OPEN",
            ]
        );
    }

    /// Exercises the rule that the LB is told first and readiness after it, in every state.
    #[test]
    fn a_pod_that_is_not_ready_is_not_open_to_the_lb() {
        for state in State::ALL {
            assert!(state.ready() || !state.open_to_lb(), "{state}");
        }
    }
}
