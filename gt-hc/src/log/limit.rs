//! How often an event that a peer can cause is told.

use std::time::{Duration, Instant};

/// Lets `per_second` lines through each second, and counts the others.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    per_second: u32,
    began: Option<Instant>,
    told: u32,
    untold: u64,
}

impl Limit {
    #[must_use]
    pub const fn new(per_second: u32) -> Self {
        Self { per_second, began: None, told: 0, untold: 0 }
    }

    /// `Some` when the event may be told, with the number of those before it that were not.
    pub fn pass(&mut self, now: Instant) -> Option<u64> {
        let new_second =
            self.began.is_none_or(|began| now.saturating_duration_since(began) >= Duration::from_secs(1));
        if new_second {
            self.began = Some(now);
            self.told = 0;
        }
        if self.told >= self.per_second {
            self.untold += 1;
            return None;
        }
        self.told += 1;
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises a flood so that it costs a bounded number of lines and none goes uncounted.
    #[test]
    fn tells_some_and_counts_the_rest() {
        let mut limit = Limit::new(2);
        let start = Instant::now();
        let passed: Vec<_> = (0..5).map(|_| limit.pass(start)).collect();
        assert_eq!(passed, [Some(0), Some(0), None, None, None]);
        assert_eq!(limit.pass(start + Duration::from_millis(1_001)), Some(3));
    }
}
