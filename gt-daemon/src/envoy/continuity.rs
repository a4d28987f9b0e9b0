//! Do two answers come from the same run of the same counters? A restarted Envoy, or a listener or cluster that was
//! taken away, makes sums smaller; a difference across that would be nonsense.

use std::{collections::HashMap, time::Duration};

use super::stat::Stat;

/// Envoy tells its uptime as of the last flush of stats, five seconds apart by default, in whole seconds.
const UPTIME_LAG: u64 = 12;

/// What was seen last.
#[derive(Clone, Debug, Default)]
pub(super) struct Continuity {
    connection: Option<u64>,
    /// Monotonic nanoseconds, and the uptime in seconds told then.
    uptime: Option<(u64, u64)>,
    counters: HashMap<(Stat, Box<str>), u64>,
}

impl Continuity {
    /// Takes in an answer about gauges. `false` when it may come from another process than the one before.
    pub(super) fn gauges(&mut self, connection: u64, at_ns: u64, uptime: Option<u64>) -> bool {
        let same = match self.connection {
            None => true,
            Some(known) if known == connection => true,
            Some(_) => self.is_plausible(at_ns, uptime),
        };
        self.connection = Some(connection);
        self.uptime = uptime.map(|uptime| (at_ns, uptime));
        if !same {
            self.counters.clear();
        }
        same
    }

    /// Takes in an answer about counters. `false` when they do not go on from those before.
    pub(super) fn counters(&mut self, connection: u64, counters: HashMap<(Stat, Box<str>), u64>) -> bool {
        let same_process = self.connection.is_none_or(|known| known == connection);
        let goes_on =
            self.counters.iter().all(|(name, before)| counters.get(name).is_some_and(|now| now >= before));
        self.connection = Some(connection);
        self.counters = counters;
        same_process && goes_on
    }

    /// Over a new connection: only an uptime that went on proves the same process. One that has just started, or
    /// tells none, proves nothing.
    fn is_plausible(&self, at_ns: u64, uptime: Option<u64>) -> bool {
        let (Some((before_ns, before)), Some(now)) = (self.uptime, uptime) else { return false };
        let elapsed = Duration::from_nanos(at_ns.saturating_sub(before_ns)).as_secs();
        let expected = before.saturating_add(elapsed);
        before > UPTIME_LAG && now.abs_diff(expected) <= UPTIME_LAG && now >= before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn counters(rows: &[(&str, u64)]) -> HashMap<(Stat, Box<str>), u64> {
        rows.iter().map(|(scope, value)| ((Stat::DownstreamRqRxReset, (*scope).into()), *value)).collect()
    }

    /// Exercises one connection, so that whatever its answers say they come from one process.
    #[test]
    fn a_kept_connection_is_one_process() {
        let mut seen = Continuity::default();
        assert!(
            seen.gauges(1, 0, Some(0)) && seen.gauges(1, SECOND, None) && seen.gauges(1, SECOND, Some(3))
        );
    }

    /// Exercises new connections, so that only an uptime that went on passes for the same process.
    #[test]
    fn new_connections() {
        let next = |before, elapsed: u64, now| {
            let mut seen = Continuity::default();
            seen.gauges(1, 0, before);
            seen.gauges(2, elapsed * SECOND, now)
        };
        assert!(
            next(Some(100), 10, Some(110)) && next(Some(100), 10, Some(105)) && next(Some(100), 3, Some(100))
        );
        assert!(!next(Some(100), 10, Some(5)), "restarted");
        assert!(!next(Some(100), 200, Some(150)), "restarted long ago");
        assert!(!next(Some(5), 6, Some(3)) && !next(Some(5), 6, Some(10)), "too young to tell");
        assert!(!next(None, 1, Some(100)) && !next(Some(100), 1, None), "unknown");
    }

    /// Exercises counters that fall or vanish, so that no difference is taken across it.
    #[test]
    fn counters_that_begin_anew() {
        let mut seen = Continuity::default();
        assert!(seen.counters(1, counters(&[("a", 1), ("b", 2)])));
        assert!(seen.counters(1, counters(&[("a", 2), ("b", 2), ("c", 1)])));
        assert!(!seen.counters(1, counters(&[("a", 2), ("b", 1), ("c", 1)])), "fell");
        assert!(!seen.counters(1, counters(&[("a", 2), ("c", 1)])), "vanished");
        assert!(seen.counters(1, counters(&[("a", 2), ("c", 1)])));
        assert!(!seen.counters(2, counters(&[("a", 2), ("c", 1)])), "another connection, unproven");
    }

    /// Exercises a restart, so that it is told once and not again by counters that are small now.
    #[test]
    fn a_restart_is_told_once() {
        let mut seen = Continuity::default();
        seen.gauges(1, 0, Some(100));
        seen.counters(1, counters(&[("a", 9)]));
        assert!(!seen.gauges(2, SECOND, Some(0)));
        assert!(seen.counters(2, counters(&[("a", 1)])));
    }
}
