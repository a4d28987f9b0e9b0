//! When the table of connections is compared with the sockets that are there: pure but for telling what was found.
//!
//! A walk over the sockets of one network namespace goes over all sockets of the machine (`bpf_iter_tcp_established_batch`,
//! net/ipv4/tcp_ipv4.c), so with hundreds of pods a comparison takes seconds. While the kernel tells that nothing was
//! missed it is made little by little.

use std::time::{Duration, Instant};

use tracing::{error, warn};

use crate::{
    metrics::Health,
    pods::tracker::{Checked, Tracker},
};

/// From the beginning of one comparison to that of the next at least.
const CHECK: Duration = Duration::from_secs(60);

/// How long a part of it takes, about: pods are not followed meanwhile.
const PART: Duration = Duration::from_millis(20);

/// How long nothing is compared after a part, in times of what the part took: 0.1 % of a core, or 5 %.
const CALM: u32 = 1000;
const SUSPICIOUS: u32 = 20;

/// The pace of comparisons.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// When the comparison under way, or else the last one, began.
    began: Instant,
    /// When its last part ended, and how long that took.
    rests: Instant,
    took: Duration,
    /// Whether that part was the last one.
    whole: bool,
    /// What the kernel had missed when the comparison began, and when the one before did; `None`: it does not tell.
    missed: Option<u64>,
    accounted: Option<u64>,
}

impl Pace {
    /// Nothing is compared in the first minute.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            began: now,
            rests: now,
            took: Duration::ZERO,
            whole: true,
            missed: Some(0),
            accounted: Some(0),
        }
    }

    /// Compares a part of the table when that is due. `missed`: what the kernel has missed up to now, where it tells.
    pub(super) fn go_on(&mut self, tracker: &mut Tracker, health: &Health, missed: Option<u64>) {
        let now = Instant::now();
        if !self.is_due(now, missed) {
            return;
        }
        self.begin(now, missed);
        let checked = tracker.check_on(PART).inspect_err(|error| {
            error!(%error, "the table of connections is not checked");
        });
        if let Ok(checked) = &checked {
            health.checked(checked);
            if checked.corrected > 0 {
                warn!(corrected = checked.corrected, "connections had ended without a hook telling");
            }
        }
        self.end(Instant::now(), checked.ok());
    }

    fn is_due(&self, now: Instant, missed: Option<u64>) -> bool {
        let calm = missed.is_some() && missed == self.accounted;
        let rested = self.rests + self.took.saturating_mul(if calm { CALM } else { SUSPICIOUS });
        now >= if self.whole { rested.max(self.began + CHECK) } else { rested }
    }

    fn begin(&mut self, now: Instant, missed: Option<u64>) {
        if self.whole {
            (self.began, self.missed) = (now, missed);
        }
    }

    /// A part ended; `None`: it failed, and the next begins in a minute.
    fn end(&mut self, now: Instant, checked: Option<Checked>) {
        self.rests = now;
        self.took = checked.map_or(Duration::ZERO, |checked| checked.took);
        self.whole = checked.is_none_or(|checked| checked.whole);
        if checked.is_some_and(|checked| checked.whole) {
            self.accounted = self.missed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn part(ms: u64, whole: bool) -> Option<Checked> {
        Some(Checked { namespaces: 1, corrected: 0, took: Duration::from_millis(ms), whole })
    }

    /// Exercises a small node, so that it is compared once a minute, at once.
    #[test]
    fn once_a_minute() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        assert!(!pace.is_due(start + 59 * SECOND, Some(0)) && pace.is_due(start + 60 * SECOND, Some(0)));
        pace.begin(start + 60 * SECOND, Some(0));
        pace.end(start + 60 * SECOND, part(15, true));
        assert!(!pace.is_due(start + 119 * SECOND, Some(0)) && pace.is_due(start + 120 * SECOND, Some(0)));
        pace.begin(start + 120 * SECOND, Some(0));
        pace.end(start + 120 * SECOND, None);
        assert!(!pace.is_due(start + 179 * SECOND, Some(0)) && pace.is_due(start + 180 * SECOND, Some(0)));
    }

    /// Exercises a node whose comparison takes long, so that it costs little while nothing was missed, and is quick as
    /// soon as something was or may have been, until a comparison that began after that is whole.
    #[test]
    fn little_by_little() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut pace = Pace::new(start);
        pace.begin(at(60_000), Some(0));
        pace.end(at(60_020), part(20, false));
        assert!(!pace.is_due(at(80_019), Some(0)) && pace.is_due(at(80_020), Some(0)));
        assert!(!pace.is_due(at(60_419), Some(1)) && pace.is_due(at(60_420), Some(1)));
        assert!(pace.is_due(at(60_420), None));
        // What was missed in the middle is not accounted for by this comparison, but by the next.
        pace.begin(at(60_420), Some(1));
        pace.end(at(60_440), part(20, true));
        assert!(!pace.is_due(at(119_999), Some(1)) && pace.is_due(at(120_000), Some(1)));
        pace.begin(at(120_000), Some(1));
        pace.end(at(120_020), part(20, false));
        assert!(pace.is_due(at(120_420), Some(1)));
        pace.begin(at(120_420), Some(1));
        pace.end(at(120_440), part(90, true));
        assert!(!pace.is_due(at(210_439), Some(1)) && pace.is_due(at(210_440), Some(1)));
    }
}
