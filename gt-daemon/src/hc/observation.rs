//! What a source said about one pod's hc.

use std::sync::Arc;

use gt_common::connection::HcState;

use super::states::States;
use crate::clock::Moment;

/// How old an instant may be to be placed on the monotonic clock: UTC may have been set since.
const PLACEABLE_US: i64 = 60_000_000;

/// Who said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The two health codes.
    Codes,
    /// `GET /state`.
    State,
    /// A line of the log.
    Log,
}

impl Source {
    /// The word in the timeline.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Codes => "codes",
            Self::State => "state",
            Self::Log => "log",
        }
    }
}

/// What was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// hc went from one state to another at this instant. `from` is any where the line does not tell.
    Transition { from: States, to: HcState },
    /// hc says it has been in this state since this instant.
    Since(HcState),
    /// One of these states held at this instant, and the question was asked at `asked_us` (UTC).
    Holds { states: States, asked_us: i64 },
    /// Another run of hc's container began to write about now: the state before it says nothing any more.
    Restarted,
    /// hc could not be asked; the reason says why.
    Silent,
}

/// One thing said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    pub source: Source,
    pub what: What,
    /// The instant it is about: UTC, microseconds since 1970.
    pub at_us: i64,
    /// When this process learned of it.
    pub seen: Moment,
    /// How long it took to ask, in nanoseconds: what was answered held when that began, and perhaps no longer. 0 for a log.
    pub took_ns: u64,
    /// hc's own reason, or why it is silent.
    pub reason: Option<Box<str>>,
    /// Requests in flight, as hc says; `None` when it does not, or does not know.
    pub active: Option<u64>,
}

impl Observation {
    /// The instant it is about on the monotonic clock; `None` for one too long ago to say.
    #[must_use]
    pub fn monotonic_ns(&self) -> Option<u64> {
        let ago_us = self.seen.utc_us.saturating_sub(self.at_us);
        let ago_ns = u64::try_from(ago_us).ok().filter(|_| ago_us <= PLACEABLE_US)?.checked_mul(1000)?;
        self.seen.monotonic_ns.checked_sub(ago_ns)
    }

    /// Until when hc is known by it on the monotonic clock; `None` when it tells nothing of that.
    #[must_use]
    pub fn known_ns(&self) -> Option<u64> {
        match self.what {
            What::Holds { .. } | What::Since(_) => self.seen.monotonic_ns.checked_sub(self.took_ns),
            What::Transition { .. } => self.monotonic_ns(),
            What::Restarted | What::Silent => None,
        }
    }

    /// The states possible at its instant; `None` when it says nothing of them.
    #[must_use]
    pub fn states(&self) -> Option<States> {
        match self.what {
            What::Transition { to, .. } | What::Since(to) => Some(States::only(to)),
            What::Holds { states, .. } => Some(states),
            What::Restarted | What::Silent => None,
        }
    }
}

/// An observation with the pod it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HcObservation {
    /// The pod's UID.
    pub uid: Arc<str>,
    pub observation: Observation,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises instants near and far, so that only a near one is placed on the monotonic clock.
    #[test]
    fn monotonic_instants() {
        let observation = |at_us| Observation {
            source: Source::Log,
            what: What::Restarted,
            at_us,
            seen: Moment { monotonic_ns: 5_000_000_000, utc_us: 1_000_000_000 },
            took_ns: 0,
            reason: None,
            active: None,
        };
        assert_eq!(observation(999_999_000).monotonic_ns(), Some(4_999_000_000));
        assert_eq!(observation(1_000_000_001).monotonic_ns(), None);
        assert_eq!(observation(900_000_000).monotonic_ns(), None);
        assert_eq!(observation(990_000_000).monotonic_ns(), None, "before the machine started");
    }
}
