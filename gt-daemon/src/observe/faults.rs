//! When a source of one pod that does not answer is told of in the log: pure, time is an argument.

use std::{collections::BTreeSet, time::Duration};

/// A container that has not answered yet may be on its way.
const STARTING: Duration = Duration::from_secs(15);

/// One that has answered before is told of when it fails again.
const FAILING: Duration = Duration::from_millis(100);

/// Causes that are told at most until the source answers: some have a part of an answer in them.
const MOST: usize = 8;

/// What was told of one source of one pod.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Monotonic nanoseconds of the first failure since the last answer.
    since: Option<u64>,
    has_answered: bool,
    told: BTreeSet<String>,
}

impl Faults {
    /// It did not answer; whether that is to be told: each cause once, and none that may be gone at once.
    pub(super) fn failed(&mut self, cause: &str, now_ns: u64) -> bool {
        let since = *self.since.get_or_insert(now_ns);
        let patience = if self.has_answered { FAILING } else { STARTING };
        u128::from(now_ns.saturating_sub(since)) >= patience.as_nanos()
            && self.told.len() < MOST
            && !self.told.contains(cause)
            && self.told.insert(cause.to_owned())
    }

    /// It answered; whether that is to be told, since the contrary was.
    pub(super) fn answered(&mut self) -> bool {
        self.since = None;
        self.has_answered = true;
        let told = !self.told.is_empty();
        self.told.clear();
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Exercises a source over its life, so that each cause is told once, and its end too.
    #[test]
    fn once_each() {
        let mut faults = Faults::default();
        assert!(!faults.failed("refused", 0) && !faults.failed("refused", 14 * SECOND));
        assert!(faults.failed("refused", 15 * SECOND) && !faults.failed("refused", 16 * SECOND));
        assert!(faults.failed("slow", 17 * SECOND) && !faults.failed("slow", 18 * SECOND));
        assert!(faults.answered() && !faults.answered());
        assert!(!faults.failed("refused", 20 * SECOND), "one failure is none");
        assert!(faults.failed("refused", 21 * SECOND));
    }

    /// Exercises a source that fails once now and then, and one that starts slowly: nothing is told.
    #[test]
    fn nothing_to_tell() {
        let mut faults = Faults::default();
        assert!(!faults.failed("refused", 0) && !faults.failed("refused", 10 * SECOND));
        assert!(!faults.answered());
        assert!(!faults.failed("slow", 30 * SECOND) && !faults.answered());
    }

    /// Exercises causes that are all different, so that they do not fill the log.
    #[test]
    fn not_without_end() {
        let mut faults = Faults::default();
        let told = (0..100).filter(|n| faults.failed(&n.to_string(), (20 + n) * SECOND)).count();
        assert_eq!(told, MOST);
    }
}
