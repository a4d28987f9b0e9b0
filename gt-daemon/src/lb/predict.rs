//! When an LB that nobody can ask is expected to mark a pod DOWN. Pure arithmetic.

use std::time::Duration;

/// How the LB checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// Between two checks.
    pub inter: Duration,
    /// How many in a row must fail.
    pub fall: u32,
}

impl Prediction {
    /// After the first 503 at `turned` (microseconds) the last check that must fail comes within these two instants: the first
    /// one that fails comes at once, or a whole interval later.
    #[must_use]
    pub fn down(self, turned: i64) -> (i64, i64) {
        let times = |count: u32| {
            let after = self.inter.as_micros().saturating_mul(u128::from(count));
            turned.saturating_add(i64::try_from(after).unwrap_or(i64::MAX))
        };
        (times(self.fall.saturating_sub(1)), times(self.fall))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises a usual LB, one that falls at the first check, and one without an end.
    #[test]
    fn brackets() {
        let of = |inter, fall| Prediction { inter: Duration::from_millis(inter), fall }.down(1_000_000);
        assert_eq!(of(2_000, 2), (3_000_000, 5_000_000));
        assert_eq!(of(200, 1), (1_000_000, 1_200_000));
        assert_eq!(of(u64::MAX, u32::MAX), (i64::MAX, i64::MAX));
    }
}
