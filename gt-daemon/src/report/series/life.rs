//! The pod's own life: there, being deleted, past its grace period, gone.

use super::{Stretch, stretches};
use crate::drain::{
    fact::{Fact, Timed},
    verdict::Picture,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    There,
    Deleted,
    /// Its grace period is over, and it is still there.
    Overdue,
    Gone,
}

/// The pod over time.
#[must_use]
pub fn life(facts: &[Timed], span: (i64, i64)) -> Vec<Stretch<Life>> {
    let first =
        |is_it: fn(&Fact) -> bool| facts.iter().find(|timed| is_it(&timed.fact)).map(|timed| timed.ts);
    let gone = first(|fact| *fact == Fact::PodGone);
    let deleted = first(|fact| matches!(fact, Fact::PodDeleted { .. }));
    let overdue = Picture::of(facts).and_then(|picture| picture.deadline);
    let before_gone = |at: &i64| gone.is_none_or(|gone| *at < gone);
    let mut changes: Vec<(i64, Life)> = Vec::new();
    changes.extend(deleted.filter(before_gone).map(|at| (at, Life::Deleted)));
    changes.extend(overdue.filter(before_gone).map(|at| (at, Life::Overdue)));
    changes.extend(gone.map(|at| (at, Life::Gone)));
    changes.sort_by_key(|(at, _)| *at);
    stretches(span, &Life::There, &changes, &Life::There, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises pods that go in time and too late, so that the end of the grace period shows where it was reached.
    #[test]
    fn in_time_or_not() {
        let facts = |gone| {
            [
                Timed { ts: 10, fact: Fact::PodDeleted { grace_seconds: 30 } },
                Timed { ts: gone, fact: Fact::PodGone },
            ]
        };
        let of = |gone| {
            let all = life(&facts(gone), (0, 50_000_000));
            all.into_iter().map(|one| (one.from, one.what)).collect::<Vec<_>>()
        };
        assert_eq!(of(20_000_000), [(0, Life::There), (10, Life::Deleted), (20_000_000, Life::Gone)]);
        assert_eq!(
            of(40_000_000),
            [(0, Life::There), (10, Life::Deleted), (30_000_010, Life::Overdue), (40_000_000, Life::Gone)]
        );
    }
}
