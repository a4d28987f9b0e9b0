//! The health sidecar: its states, and what it tells the load balancer.

use gt_common::connection::HcState;

use super::{Stretch, silences, stretches};
use crate::{
    drain::fact::{Fact, Hc, Source, Timed},
    hc::states::States,
};

/// Its state over time; `None` where it is not known.
#[must_use]
pub fn states(facts: &[Timed], span: (i64, i64)) -> Vec<Stretch<Option<Hc>>> {
    let changes: Vec<_> = changes(facts).map(|(at, _, to, _)| (at, to)).collect();
    let first = changes_first(facts).and_then(|(from, _)| from);
    stretches(span, &first, &changes, &None, &silences(facts, Source::Hc))
}

/// What the load balancer is told, 200 or 503, over time; `None` where it is not known.
#[must_use]
pub fn told(facts: &[Timed], span: (i64, i64)) -> Vec<Stretch<Option<u16>>> {
    let changes: Vec<_> = changes(facts).map(|(at, _, _, told)| (at, told)).collect();
    let first = changes_first(facts).and_then(|(_, told)| told);
    stretches(span, &first, &changes, &None, &silences(facts, Source::Hc))
}

fn changes(facts: &[Timed]) -> impl Iterator<Item = (i64, Option<Hc>, Option<Hc>, Option<u16>)> {
    facts.iter().filter_map(|timed| match timed.fact {
        Fact::HcState { from, to, lb_told } => Some((timed.ts, from, to, lb_told)),
        _ => None,
    })
}

/// What was before the first change, by that change's own word.
fn changes_first(facts: &[Timed]) -> Option<(Option<Hc>, Option<u16>)> {
    let (_, from, ..) = changes(facts).next()?;
    let told =
        from.and_then(|from| States::only(state(from)).shown_up()).map(|is_up| if is_up { 200 } else { 503 });
    Some((from, told))
}

fn state(hc: Hc) -> HcState {
    match hc {
        Hc::Open => HcState::Open,
        Hc::Draining => HcState::Draining,
        Hc::Closing => HcState::Closing,
        Hc::Closed => HcState::Closed,
        Hc::Fault => HcState::Fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises a drain with a silence in it, so that states before the first change are as that change says, and those in
    /// the silence are not known.
    #[test]
    fn a_drain() {
        let change = |ts, from, to| Timed { ts, fact: Fact::hc_change(States::only(from), States::only(to)) };
        let gap = Timed { ts: 40, fact: Fact::Gap { source: Source::Hc, length_us: 5, why: String::new() } };
        let other =
            Timed { ts: 20, fact: Fact::Gap { source: Source::Envoy, length_us: 15, why: String::new() } };
        let facts = [
            change(10, HcState::Open, HcState::Draining),
            other,
            change(30, HcState::Draining, HcState::Closing),
            gap,
        ];
        fn one<T>(from: i64, to: i64, what: T) -> Stretch<T> {
            Stretch { from, to, what }
        }
        assert_eq!(
            states(&facts, (0, 50)),
            [
                one(0, 10, Some(Hc::Open)),
                one(10, 30, Some(Hc::Draining)),
                one(30, 35, Some(Hc::Closing)),
                one(35, 40, None),
                one(40, 50, Some(Hc::Closing)),
            ]
        );
        assert_eq!(
            told(&facts, (0, 50)),
            [one(0, 30, Some(200)), one(30, 35, Some(503)), one(35, 40, None), one(40, 50, Some(503)),]
        );
        assert_eq!(states(&[], (0, 50)), [one(0, 50, None)]);
    }
}
