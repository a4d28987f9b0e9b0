//! The looks of the last half minute.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use super::sample::Sample;

/// How long a sample is kept, nanoseconds: longer than any window around an event.
const KEPT_NS: u64 = 30_000_000_000;

/// At the fast pace half a minute has 150 looks; alarms may add some.
const MOST: usize = 512;

/// Samples in the order of their looks. The newest is kept however old it is.
#[derive(Debug, Default)]
pub(super) struct History(Mutex<VecDeque<Sample>>);

impl History {
    pub(super) fn push(&self, sample: Sample) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = sample.gauges.ended.monotonic_ns;
        samples.push_back(sample);
        while samples.len() > 1
            && (samples.len() > MOST
                || samples
                    .front()
                    .is_some_and(|first| now.saturating_sub(first.gauges.ended.monotonic_ns) > KEPT_NS))
        {
            samples.pop_front();
        }
    }

    pub(super) fn all(&self) -> Vec<Sample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    pub(super) fn last(&self) -> Option<Sample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).back().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        clock::Moment,
        envoy::sample::{Gauges, Read},
    };

    fn sample(second: u64) -> Sample {
        let moment = Moment { monotonic_ns: second * 1_000_000_000, utc_us: 0 };
        Sample {
            epoch: 0,
            gauges: Read { begun: moment, ended: moment, values: Gauges::default() },
            counters: None,
        }
    }

    /// Exercises age and number, so that memory is bounded and the newest always there.
    #[test]
    fn bounds() {
        let history = History::default();
        assert_eq!(history.last(), None);
        for second in [0, 10, 40] {
            history.push(sample(second));
        }
        assert_eq!(history.all(), [sample(10), sample(40)]);
        history.push(sample(100));
        assert_eq!(history.all(), [sample(100)]);
        for _ in 0..2 * MOST {
            history.push(sample(100));
        }
        assert_eq!(history.all().len(), MOST);
        assert_eq!(history.last(), Some(sample(100)));
    }
}
