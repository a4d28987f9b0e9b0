//! The two clocks: the monotonic one, which the kernel's events carry, and UTC, which logs carry.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::time::ClockId;

/// One instant on both clocks, read one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// `CLOCK_MONOTONIC`, nanoseconds: what `bpf_ktime_get_ns` tells.
    pub monotonic_ns: u64,
    /// Microseconds since 1970 in UTC.
    pub utc_us: i64,
}

/// Between the two reads of one instant there is no more than this, nanoseconds, unless the process was held up just there.
const NEAR_NS: u64 = 10_000_000;

/// How often an instant is read anew: a machine that is always so slow has no better one.
const READS: usize = 4;

impl Moment {
    /// Now.
    #[must_use]
    pub fn now() -> Self {
        Self::read(monotonic_ns, || utc_us(SystemTime::now()))
    }

    /// A process that is stopped between the two reads would make of them an instant that never was.
    fn read(mut monotonic: impl FnMut() -> u64, mut utc: impl FnMut() -> i64) -> Self {
        let mut moment = Self { monotonic_ns: monotonic(), utc_us: utc() };
        for _ in 1..READS {
            let after = monotonic();
            if after.saturating_sub(moment.monotonic_ns) <= NEAR_NS {
                break;
            }
            moment = Self { monotonic_ns: after, utc_us: utc() };
        }
        moment
    }

    /// By how much UTC is ahead of the monotonic clock, microseconds: the same at all instants, but for those between which UTC
    /// was set.
    #[must_use]
    pub fn utc_ahead_us(self) -> i64 {
        self.utc_us.saturating_sub(i64::try_from(self.monotonic_ns / 1000).unwrap_or(i64::MAX))
    }

    /// When, in UTC microseconds, the monotonic clock showed `at_ns`, as this instant knows it.
    #[must_use]
    pub fn utc_of(self, at_ns: u64) -> i64 {
        let micros = |ns: u64| i64::try_from(ns / 1000).unwrap_or(i64::MAX);
        let ago = micros(self.monotonic_ns.saturating_sub(at_ns));
        let ahead = micros(at_ns.saturating_sub(self.monotonic_ns));
        self.utc_us.saturating_sub(ago).saturating_add(ahead)
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = ClockId::CLOCK_MONOTONIC.now().map(Duration::from).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Microseconds since 1970; negative before.
#[must_use]
pub fn utc_us(time: SystemTime) -> i64 {
    let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => micros(since),
        Err(error) => -micros(error.duration()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises both sides of 1970, so that no clock that is set wrong looks like another instant.
    #[test]
    fn micros() {
        assert_eq!(utc_us(UNIX_EPOCH + Duration::from_micros(7)), 7);
        assert_eq!(utc_us(UNIX_EPOCH - Duration::from_micros(7)), -7);
    }

    /// Exercises instants before and after one that is known on both clocks.
    #[test]
    fn from_one_clock_to_the_other() {
        let now = Moment { monotonic_ns: 5_000_000, utc_us: 70_000 };
        assert_eq!((now.utc_of(4_000_000), now.utc_of(5_000_000)), (69_000, 70_000));
        assert_eq!((now.utc_of(6_000_999), now.utc_of(u64::MAX) > 0), (71_000, true));
    }

    /// Exercises a process that is stopped for half a minute between its two reads, so that they are made anew.
    #[test]
    fn both_clocks_are_read_together() {
        let mut monotonic = [1_000, 30_000_001_000, 30_000_002_000].into_iter();
        let mut utc = [77, 30_000_077].into_iter();
        let now = Moment::read(|| monotonic.next().unwrap(), || utc.next().unwrap());
        assert_eq!(now, Moment { monotonic_ns: 30_000_001_000, utc_us: 30_000_077 });
        assert_eq!(now.utc_ahead_us(), 76);
    }

    /// Exercises a machine on which every read takes too long, so that reading ends all the same.
    #[test]
    fn reading_ends() {
        let mut reads = 0;
        let read = || {
            reads += 1;
            reads * 1_000_000_000
        };
        assert_eq!(Moment::read(read, || 5).utc_us, 5);
        assert_eq!(reads, READS as u64);
    }

    /// Exercises the order of instants, so that a window of two reads is never negative.
    #[test]
    fn moments_follow_each_other() {
        let (first, second) = (Moment::now(), Moment::now());
        assert!(first.monotonic_ns <= second.monotonic_ns && first.monotonic_ns > 0);
    }
}
