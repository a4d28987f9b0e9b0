//! Instants as logs write them, and which of two stamps of one line tells better when it was.

use jiff::{Timestamp, civil::DateTime};

/// An instant as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Microseconds since 1970, taken as UTC where no time zone was written.
    us: i64,
    zoned: bool,
    /// Whether it has parts of a second.
    fine: bool,
}

const SECOND: i64 = 1_000_000;

/// A line may wait this long between hc and the container runtime, whose pipe may be full.
const LONGEST_WAIT: i64 = 600 * SECOND;

/// Time zones differ from UTC by whole quarters of an hour, up to 14 hours.
const QUARTER: i64 = 900 * SECOND;
const FARTHEST_ZONE: i64 = 14 * 3600 * SECOND;

/// Where the time zone has to be found out, a line waited no longer than this.
const SHORT_WAIT: i64 = 120 * SECOND;

impl Stamp {
    /// Reads RFC 3339 and its relatives (a space for the `T`, a comma for the point, offsets without a colon, no
    /// offset at all), and seconds, milli-, micro- or nanoseconds since 1970.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() > 40 || !text.is_ascii() || !text.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        if let Some(stamp) = Self::since_1970(text) {
            return Some(stamp);
        }
        let fine = text.contains(['.', ',']);
        // `2026-11-30 16:16:46 +0900` has one space too many.
        let joined = match text.rsplit_once(' ') {
            Some((time, zone)) if zone.starts_with(['+', '-']) => format!("{time}{zone}"),
            _ => text.to_owned(),
        };
        if let Ok(instant) = joined.parse::<Timestamp>() {
            return Some(Self { us: instant.as_microsecond(), zoned: true, fine });
        }
        let local = joined.parse::<DateTime>().ok()?;
        if !joined.contains(':') {
            return None;
        }
        let us = local.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_microsecond();
        Some(Self { us, zoned: false, fine })
    }

    /// A number from 2001 to 2286, in the unit its length tells.
    fn since_1970(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if whole.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number: i64 = whole.parse().ok()?;
        let us = match whole.len() {
            10 => {
                let micros: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
                number.checked_mul(SECOND)?.checked_add(micros)?
            }
            13 => number.checked_mul(1000)?,
            16 => number,
            19 => number / 1000,
            _ => return None,
        };
        Some(Self { us, zoned: true, fine: whole.len() > 10 || !fraction.is_empty() })
    }

    /// The instant, where its time zone was written.
    #[must_use]
    pub fn utc_us(self) -> Option<i64> {
        self.zoned.then_some(self.us)
    }
}

/// When a line was: `own` is what hc wrote into it, `runtime` when the container runtime read it (UTC, microseconds).
///
/// hc's own stamp is the instant itself, the runtime's is a little later. It is not used where it cannot be right (in
/// the runtime's future, or long before), or tells less: whole seconds, when the runtime's lies in that second. Where it
/// has no time zone, the runtime's stamp tells which one fits.
#[must_use]
pub fn instant(own: Option<Stamp>, runtime: Option<i64>) -> Option<i64> {
    let (own, runtime) = match (own, runtime) {
        (None, runtime) => return runtime,
        (Some(own), None) => return own.utc_us(),
        (Some(own), Some(runtime)) => (own, runtime),
    };
    let own_us = if own.zoned { own.us } else { in_zone(own.us, runtime) };
    let waited = runtime.saturating_sub(own_us);
    let longest = if own.zoned { LONGEST_WAIT } else { SHORT_WAIT };
    let precise = own.fine || waited >= SECOND;
    // A clock read in two places may seem to run backwards by its own resolution.
    let right = (-1000..=longest).contains(&waited);
    Some(if right && precise { own_us } else { runtime })
}

/// The local time moved by whole quarters of an hour to where it is just before `runtime`.
fn in_zone(local: i64, runtime: i64) -> i64 {
    let ahead = local.saturating_sub(runtime);
    // What is left after the zone is the wait, which is small: the next quarter above.
    let zone = ahead.saturating_add(SHORT_WAIT).div_euclid(QUARTER).saturating_mul(QUARTER);
    if zone.abs() <= FARTHEST_ZONE { local - zone } else { local }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2026-11-30T07:16:46.981444Z.
    const THEN: i64 = 1_796_023_006_981_444;
    const WHOLE: i64 = 1_796_023_006_000_000;

    fn utc(text: &str) -> Option<i64> {
        Stamp::parse(text)?.utc_us()
    }

    /// Exercises the ways to write one instant, so that each is that instant.
    #[test]
    fn one_instant() {
        for text in [
            "2026-11-30T07:16:46.981444Z",
            "2026-11-30T07:16:46.981444999Z",
            "2026-11-30t07:16:46.981444z",
            "2026-11-30T16:16:46.981444+09:00",
            "2026-11-30T16:16:46.981444+0900",
            "2026-11-30 16:16:46,981444 +0900",
            "2026-11-30T03:46:46.981444-03:30",
            "2026-11-30 07:16:46.981444+00:00",
            "1796023006.981444",
            "1796023006981444",
            "1796023006981444123",
        ] {
            assert_eq!(utc(text), Some(THEN), "{text}");
        }
        assert_eq!(utc("2026-11-30T07:16:46Z"), Some(WHOLE));
        assert_eq!(utc("1796023006"), Some(WHOLE));
        assert_eq!(utc("1796023006981"), Some(THEN - 444));
    }

    /// Exercises what is no instant, so that nothing else is taken for one.
    #[test]
    fn no_instants() {
        for text in [
            "",
            "now",
            "2026",
            "20261130",
            "2026-11-30",
            "12:00:00",
            "179602300",
            "1796023006.x",
            "-5",
            "2026-13-01T00:00:00Z",
        ] {
            assert_eq!(Stamp::parse(text), None, "{text}");
        }
        assert_eq!(utc("2026-11-30T07:16:46.981444"), None, "no zone, no instant by itself");
    }

    /// Exercises both stamps of a line, so that the better one is taken.
    #[test]
    fn the_better_stamp() {
        let own = |text| Stamp::parse(text);
        let fine = own("2026-11-30T07:16:46.981444Z");
        assert_eq!(instant(fine, Some(THEN + 300)), Some(THEN));
        assert_eq!(instant(fine, Some(THEN + 5 * SECOND)), Some(THEN), "the line waited");
        assert_eq!(instant(fine, Some(THEN - SECOND)), Some(THEN - SECOND), "hc's clock is wrong");
        assert_eq!(instant(fine, Some(THEN + 3600 * SECOND)), Some(THEN + 3600 * SECOND), "an old stamp");
        assert_eq!(instant(fine, None), Some(THEN));
        assert_eq!(instant(None, Some(THEN)), Some(THEN));
        assert_eq!(instant(None, None), None);
        let coarse = own("2026-11-30T07:16:46Z");
        assert_eq!(instant(coarse, Some(THEN)), Some(THEN), "the same second");
        assert_eq!(instant(coarse, Some(THEN + 3 * SECOND)), Some(WHOLE), "the line waited");
        for local in
            ["2026-11-30T16:16:46.981444", "2026-11-30 03:46:46.981444", "2026-11-30T07:16:46.981444"]
        {
            assert_eq!(instant(own(local), Some(THEN + 300)), Some(THEN), "{local}");
            assert_eq!(instant(own(local), None), None);
        }
    }

    proptest! {
        /// Exercises any zone and wait, so that a local time is placed where it was.
        #[test]
        fn local_times(quarters in -48_i64..=56, wait in 0_i64..100_000_000) {
            let own = Stamp { us: THEN + quarters * QUARTER, zoned: false, fine: true };
            prop_assert_eq!(instant(Some(own), Some(THEN + wait)), Some(THEN));
        }

        /// Exercises any two stamps, so that the instant is one of them or near the runtime's.
        #[test]
        fn never_far_from_the_runtime(us in any::<i64>(), zoned in any::<bool>(), fine in any::<bool>(), runtime in 0..i64::MAX / 2) {
            let chosen = instant(Some(Stamp { us, zoned, fine }), Some(runtime)).unwrap();
            prop_assert!(runtime - chosen <= LONGEST_WAIT && chosen - runtime <= 1000);
        }

        /// Exercises any text, so that none panics.
        #[test]
        fn any_text(text in ".{0,50}") {
            let _whatever = Stamp::parse(&text);
        }
    }
}
