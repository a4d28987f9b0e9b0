//! Numbers: requests in flight at the proxy, connections of users.

use super::{Stretch, silences, stretches};
use crate::drain::fact::{Fact, Source, Timed};

/// Numbers over time; `None` where none is known, which is not zero.
pub type Numbers = Vec<Stretch<Option<u64>>>;

/// Requests in flight, from clients and to upstreams.
#[must_use]
pub fn requests(facts: &[Timed], span: (i64, i64)) -> (Numbers, Numbers) {
    let mut changes = (Vec::new(), Vec::new());
    for Timed { ts, fact } in facts {
        if let Fact::EnvoyActiveCount { downstream, upstream } = fact {
            changes.0.push((*ts, *downstream));
            changes.1.push((*ts, *upstream));
        }
    }
    until_gone(facts, &mut changes.0);
    until_gone(facts, &mut changes.1);
    let silences = silences(facts, Source::Envoy);
    let all = |changes: &[_]| stretches(span, &None, changes, &None, &silences);
    (all(&changes.0), all(&changes.1))
}

/// Connections of users, established and closing.
#[must_use]
pub fn connections(facts: &[Timed], span: (i64, i64)) -> (Numbers, Numbers) {
    let mut changes = (Vec::new(), Vec::new());
    for Timed { ts, fact } in facts {
        if let Fact::Connections { active, closing } = fact {
            changes.0.push((*ts, Some(*active)));
            changes.1.push((*ts, Some(*closing)));
        }
    }
    let silences = silences(facts, Source::Kernel);
    let all = |changes: &[_]| stretches(span, &None, changes, &None, &silences);
    (all(&changes.0), all(&changes.1))
}

/// A proxy that is gone says nothing more: what it said last does not go on.
fn until_gone(facts: &[Timed], changes: &mut Vec<(i64, Option<u64>)>) {
    let gone = facts.iter().filter(|timed| timed.fact == Fact::PodGone).map(|timed| timed.ts).max();
    if let Some(gone) = gone
        && changes.last().is_none_or(|(last, _)| *last <= gone)
    {
        changes.push((gone, None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn active(ts: i64, downstream: Option<u64>) -> Timed {
        Timed { ts, fact: Fact::EnvoyActiveCount { downstream, upstream: Some(2) } }
    }

    /// Exercises what was never told, what was told to be unknown, a silence, and a pod that is gone, so that none of them is
    /// shown as zero.
    #[test]
    fn unknown_is_not_zero() {
        let gap =
            Timed { ts: 25, fact: Fact::Gap { source: Source::Envoy, length_us: 3, why: String::new() } };
        let gone = Timed { ts: 40, fact: Fact::PodGone };
        let facts = [active(10, Some(1)), gap, active(30, None), active(35, Some(0)), gone];
        let one = |from, to, what| Stretch { from, to, what };
        let (down, up) = requests(&facts, (0, 50));
        assert_eq!(
            down,
            [
                one(0, 10, None),
                one(10, 22, Some(1)),
                one(22, 25, None),
                one(25, 30, Some(1)),
                one(30, 35, None),
                one(35, 40, Some(0)),
                one(40, 50, None),
            ]
        );
        assert_eq!(up.iter().filter(|one| one.what == Some(2)).count(), 2);
        assert_eq!(connections(&facts, (0, 50)).0, [one(0, 50, None)]);
    }
}
