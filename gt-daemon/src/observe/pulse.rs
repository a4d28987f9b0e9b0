//! Whether the observer has run all the time, and whether UTC was set meanwhile. Pure; time is an argument.

use crate::clock::Moment;

/// An observer that did not run for longer has not seen that time, nanoseconds: as long as a source may be silent.
const STALL_NS: u64 = 5_000_000_000;

/// UTC that is set by more than this, microseconds, is another clock: adjusting a clock that runs is slower, and stamps of one
/// event by different mouths differ less.
const SET_US: i64 = 500_000;

/// What the observer was at its last look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pulse {
    last: Option<Moment>,
}

/// What happened between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Beat {
    /// For how long the observer did not run, microseconds, where that was too long.
    pub(super) stalled_us: Option<i64>,
    /// By how much UTC was set, microseconds, forward or back.
    pub(super) set_us: Option<i64>,
}

impl Pulse {
    /// Looks at the clocks; to be called ten times a second.
    pub(super) fn beat(&mut self, now: Moment) -> Beat {
        let Some(last) = self.last.replace(now) else { return Beat::default() };
        let away_ns = now.monotonic_ns.saturating_sub(last.monotonic_ns);
        let set_us = now.utc_ahead_us().saturating_sub(last.utc_ahead_us());
        Beat {
            stalled_us: i64::try_from(away_ns / 1000).ok().filter(|_| away_ns > STALL_NS),
            set_us: Some(set_us).filter(|by| by.saturating_abs() > SET_US),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn at(monotonic_ms: u64, utc_ms: i64) -> Moment {
        Moment { monotonic_ns: monotonic_ms * 1_000_000, utc_us: utc_ms * 1_000 }
    }

    /// Exercises looks in time, a late one, and one after half a minute, so that only the last is told, with its length.
    #[test]
    fn stalls() {
        let mut pulse = Pulse::default();
        assert_eq!(pulse.beat(at(60_000, 0)), Beat::default(), "the first look has none before it");
        assert_eq!(pulse.beat(at(60_100, 100)), Beat::default());
        assert_eq!(pulse.beat(at(65_100, 5_100)), Beat::default());
        let stalled = Beat { stalled_us: Some(30 * SECOND), set_us: None };
        assert_eq!(pulse.beat(at(95_100, 35_100)), stalled);
        assert_eq!(pulse.beat(at(95_200, 35_200)), Beat::default(), "it is told once");
    }

    /// Exercises a clock that is adjusted, set forward and set back by an hour, so that only setting it is told, each time once.
    #[test]
    fn clocks_that_are_set() {
        let mut pulse = Pulse::default();
        pulse.beat(at(1_000, 0));
        assert_eq!(pulse.beat(at(1_100, 110)), Beat::default(), "adjusted");
        let set = |hours: i64| Beat { stalled_us: None, set_us: Some(hours * 3_600 * SECOND) };
        assert_eq!(pulse.beat(at(1_200, 3_600_210)), set(1));
        assert_eq!(pulse.beat(at(1_300, 3_600_310)), Beat::default());
        assert_eq!(pulse.beat(at(1_400, 410)), set(-1));
        assert_eq!(pulse.beat(at(1_500, 510)), Beat::default());
    }
}
