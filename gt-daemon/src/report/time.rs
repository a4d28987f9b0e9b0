//! From instants to places on the time axis.

use jiff::Timestamp;

use super::text::{clock, day};

/// Steps of an axis, microseconds: a second and less by 1, 2 and 5, then as clocks have them.
const STEPS: [i64; 36] = {
    const S: i64 = 1_000_000;
    [
        1,
        2,
        5,
        10,
        20,
        50,
        100,
        200,
        500,
        1_000,
        2_000,
        5_000,
        10_000,
        20_000,
        50_000,
        100_000,
        200_000,
        500_000,
        S,
        2 * S,
        5 * S,
        10 * S,
        15 * S,
        30 * S,
        60 * S,
        120 * S,
        300 * S,
        600 * S,
        900 * S,
        1_800 * S,
        3_600 * S,
        7_200 * S,
        21_600 * S,
        43_200 * S,
        86_400 * S,
        604_800 * S,
    ]
};

/// A stretch of time, UTC microseconds, never empty; and the places of its ends.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub from: i64,
    pub to: i64,
    pub left: f64,
    pub right: f64,
}

impl Scale {
    /// What no calendar has is cut off; an empty stretch gets a millisecond.
    #[must_use]
    pub fn new(from: i64, to: i64, left: f64, right: f64) -> Self {
        let (first, last) = (Timestamp::MIN.as_microsecond(), Timestamp::MAX.as_microsecond());
        let from = from.clamp(first, last - 1_000);
        Self { from, to: to.clamp(from + 1_000, last), left, right }
    }

    /// Where an instant is; what is outside is at the end nearest to it.
    #[must_use]
    pub fn x(&self, us: i64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a place on a page needs a few digits")]
        let share = (us.clamp(self.from, self.to) - self.from) as f64 / (self.to - self.from) as f64;
        self.left + share * (self.right - self.left)
    }

    /// Whether an instant is inside.
    #[must_use]
    pub fn has(&self, us: i64) -> bool {
        (self.from..=self.to).contains(&us)
    }

    /// Its length, microseconds.
    #[must_use]
    pub fn length(&self) -> i64 {
        self.to - self.from
    }

    /// Ticks at whole times of the clock, `most` at most: the place of each and its label.
    #[must_use]
    pub fn ticks(&self, most: u16) -> Vec<(f64, String)> {
        let step = self.step(most);
        self.multiples(step, 0).map(|at| (self.x(at), label(at, step))).collect()
    }

    /// Ticks at whole distances from an instant, with their signs.
    #[must_use]
    pub fn distances(&self, zero: i64, most: u16) -> Vec<(f64, String)> {
        let step = self.step(most);
        let label = |at: i64| (self.x(at), distance(at.saturating_sub(zero), step));
        self.multiples(step, zero.clamp(self.from, self.to)).map(label).collect()
    }

    fn step(&self, most: u16) -> i64 {
        let least = self.length() / i64::from(most.max(1));
        // A file may hold a thousand years.
        STEPS.into_iter().find(|step| *step > least).unwrap_or(least.saturating_mul(2))
    }

    fn multiples(&self, step: i64, zero: i64) -> impl Iterator<Item = i64> {
        let to = self.to;
        let first = self.from + (zero - self.from).rem_euclid(step);
        std::iter::successors(Some(first), move |at| at.checked_add(step)).take_while(move |at| *at <= to)
    }
}

/// As much of an instant as a step needs.
fn label(at: i64, step: i64) -> String {
    if step >= 86_400_000_000 {
        return day(at);
    }
    let time = clock(at);
    let keep = if step < 1_000_000 { 9 + digits(step) } else { 8 };
    time.get(..keep).unwrap_or(&time).to_owned()
}

fn distance(us: i64, step: i64) -> String {
    let sign = match us {
        0 => return "0".to_owned(),
        1.. => '+',
        _ => '−',
    };
    let us = us.unsigned_abs();
    let (whole, part) = (us / 1_000_000, us % 1_000_000);
    if step < 1_000_000 {
        let part = format!("{part:06}");
        return format!("{sign}{whole}.{} s", part.get(..digits(step)).unwrap_or(&part));
    }
    match whole {
        0..120 => format!("{sign}{whole} s"),
        120..7_200 => format!("{sign}{}:{:02} min", whole / 60, whole % 60),
        _ => format!("{sign}{}:{:02} h", whole / 3_600, whole % 3_600 / 60),
    }
}

/// Digits after the point that tell multiples of a step below a second apart.
fn digits(step: i64) -> usize {
    (1..=6).find(|digits| step % 10_i64.pow(6 - digits) == 0).map_or(6, |digits| digits as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Exercises axes from milliseconds to days, so that labels tell their ticks apart, and say no more.
    #[test]
    fn labels() {
        let base = 1_780_211_554_000_000;
        let of = |from, to| {
            let scale = Scale::new(from, to, 0.0, 100.0);
            let labels: Vec<String> = scale.ticks(5).into_iter().map(|(_, label)| label).collect();
            labels.join(" ")
        };
        assert_eq!(of(base, base + 10_000_000), "07:12:35 07:12:40");
        assert_eq!(of(base, base + 1_000_000), "07:12:34.0 07:12:34.5 07:12:35.0");
        assert_eq!(of(base, base + 10_000), "07:12:34.000 07:12:34.005 07:12:34.010");
        assert_eq!(of(base, base + 86_400_000_000 * 4), "2026-06-01 2026-06-02 2026-06-03 2026-06-04");
        let scale = Scale::new(base, base + 10_000_000, 0.0, 100.0);
        let distances = scale.distances(base + 2_000_000, 5);
        let expected = [(20.0, "0"), (70.0, "+5 s")];
        assert_eq!(distances, expected.map(|(x, label)| (x, label.to_owned())));
    }

    proptest! {
        /// Exercises any two instants, so that places are on the axis, and ticks are few and ordered.
        #[test]
        fn any_stretch(from: i64, to: i64, at: i64, most in 1_u16..20) {
            let scale = Scale::new(from, to, 10.0, 90.0);
            prop_assert!((10.0..=90.0).contains(&scale.x(at)));
            for ticks in [scale.ticks(most), scale.distances(at, most)] {
                prop_assert!(ticks.len() <= usize::from(most) + 1);
                prop_assert!(ticks.is_sorted_by(|one, next| one.0 < next.0));
            }
        }
    }
}
