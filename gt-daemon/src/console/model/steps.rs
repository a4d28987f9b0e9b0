//! What held since when: steps in order of time, in bounded memory. Pure.

use std::collections::VecDeque;

/// So many steps are kept of one thing: the newest.
pub const MOST: usize = 4_096;

/// Values, each from its instant (UTC microseconds) until the next one's.
#[derive(Clone, Debug, Default)]
pub struct Steps<T> {
    steps: VecDeque<(i64, T)>,
}

impl<T: Copy + PartialEq> Steps<T> {
    /// A value held from an instant on, as is known now; steps may come in any order.
    pub fn set(&mut self, ts: i64, value: T) {
        let place = self.steps.partition_point(|(at, _)| *at <= ts);
        let before = place.checked_sub(1).and_then(|before| self.steps.get_mut(before));
        match before {
            Some((_, held)) if *held == value => return,
            // Of two words on one instant the later told stands.
            Some((at, held)) if *at == ts => *held = value,
            _ => {
                self.steps.insert(place, (ts, value));
                if self.steps.len() > MOST {
                    self.steps.pop_front();
                }
                return;
            }
        }
        self.join(ts);
    }

    /// Removes what a step that was overwritten made no change.
    fn join(&mut self, ts: i64) {
        let place = self.steps.partition_point(|(at, _)| *at < ts);
        let value_at =
            |place: Option<usize>| place.and_then(|place| self.steps.get(place)).map(|step| step.1);
        if value_at(place.checked_sub(1)).is_some_and(|before| Some(before) == value_at(Some(place))) {
            self.steps.remove(place);
        }
    }

    /// What held at an instant; `None` before the first step.
    #[must_use]
    pub fn at(&self, ts: i64) -> Option<T> {
        let place = self.steps.partition_point(|(at, _)| *at <= ts);
        place.checked_sub(1).and_then(|place| self.steps.get(place)).map(|step| step.1)
    }

    /// The newest step.
    #[must_use]
    pub fn last(&self) -> Option<(i64, T)> {
        self.steps.back().copied()
    }

    /// Steps from one instant until before another.
    pub fn between(&self, from: i64, to: i64) -> impl Iterator<Item = (i64, T)> + '_ {
        let first = self.steps.partition_point(|(at, _)| *at < from);
        self.steps.range(first..).copied().take_while(move |(at, _)| *at < to)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(steps: &Steps<u8>) -> Vec<(i64, u8)> {
        steps.between(i64::MIN, i64::MAX).collect()
    }

    /// Exercises steps told late, twice and as they were, so that each stands once at its instant.
    #[test]
    fn in_any_order() {
        let mut steps = Steps::default();
        for (ts, value) in [(10, 1), (30, 3), (20, 2), (40, 3), (10, 1), (25, 2)] {
            steps.set(ts, value);
        }
        assert_eq!(all(&steps), [(10, 1), (20, 2), (30, 3)]);
        assert_eq!([9, 10, 29, 99].map(|ts| steps.at(ts)), [None, Some(1), Some(2), Some(3)]);
        steps.set(20, 1);
        assert_eq!(all(&steps), [(10, 1), (30, 3)]);
        assert_eq!(steps.between(11, 31).collect::<Vec<_>>(), [(30, 3)]);
    }

    /// Exercises more steps than are kept, so that memory is bounded and the newest stay.
    #[test]
    fn bounds() {
        let mut steps = Steps::default();
        for ts in 0..10_000_i64 {
            steps.set(ts, u8::from(ts % 2 == 0));
        }
        assert_eq!((steps.len(), steps.last()), (MOST, Some((9_999, 0))));
        assert_eq!(steps.at(0), None);
    }
}
