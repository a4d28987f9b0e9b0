//! The observations of one pod's hc that are worth keeping, in bounded memory.

use std::collections::VecDeque;

use super::{
    merge::{Change, merge},
    observation::{Observation, What},
    states::States,
};

/// Instants that somebody named: a drain has four or five.
const MOST_NAMED: usize = 128;

/// Polls that only saw what held; of a row of equal ones the first and the last are kept.
const MOST_SEEN: usize = 128;

/// What is known of one pod's hc.
#[derive(Clone, Debug, Default)]
pub struct Record {
    named: VecDeque<Observation>,
    seen: VecDeque<Observation>,
}

impl Record {
    /// Takes an observation in. The oldest gives way when there are too many.
    pub fn push(&mut self, observation: Observation) {
        match observation.what {
            What::Holds { .. } => self.push_seen(observation),
            What::Since(state) => {
                // It held when it was told, too.
                let (told_us, took_us) = (observation.seen.utc_us, observation.took_ns / 1000);
                let asked_us = told_us.saturating_sub_unsigned(took_us);
                let what = What::Holds { states: States::only(state), asked_us };
                let held = Observation { what, at_us: told_us, ..observation.clone() };
                self.push_named(observation);
                self.push_seen(held);
            }
            What::Transition { .. } | What::Restarted => self.push_named(observation),
            What::Silent => {}
        }
    }

    fn push_named(&mut self, observation: Observation) {
        let is_known = |known: &Observation| {
            (known.source, known.what, known.at_us)
                == (observation.source, observation.what, observation.at_us)
        };
        if !self.named.iter().any(is_known) {
            keep(&mut self.named, observation, MOST_NAMED);
        }
    }

    fn push_seen(&mut self, observation: Observation) {
        let same = |known: &Observation| {
            known.source == observation.source && known.states() == observation.states()
        };
        let row = self.seen.iter().rev().take(2).take_while(|known| same(known)).count();
        if row == 2 {
            self.seen.pop_back();
        }
        keep(&mut self.seen, observation, MOST_SEEN);
    }

    /// All changes, in order of time.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        merge(self.named.iter().chain(&self.seen))
    }

    /// The states possible at an instant (UTC, microseconds).
    #[must_use]
    pub fn states_at(&self, at_us: i64) -> States {
        let changes = self.changes();
        let next = changes.partition_point(|change| change.at_us <= at_us);
        match (next.checked_sub(1).and_then(|last| changes.get(last)), changes.get(next)) {
            // It, or another one before it, may have happened at any time until it was found out.
            (Some(last), Some(next)) if next.not_before_us.is_some_and(|since| since < at_us) => {
                if next.found { last.to.or(next.to) } else { last.to.on_the_way_to(next.to) }
            }
            (Some(last), _) => last.to,
            // What the first line says was before it.
            (None, Some(first)) => first.from,
            (None, None) => States::ANY,
        }
    }
}

fn keep(list: &mut VecDeque<Observation>, observation: Observation, most: usize) {
    if list.len() >= most {
        list.pop_front();
    }
    list.push_back(observation);
}

#[cfg(test)]
mod tests {
    use gt_common::connection::HcState;
    use proptest::prelude::*;

    use super::*;
    use crate::{clock::Moment, hc::observation::Source};

    fn observation(source: Source, what: What, at_us: i64) -> Observation {
        Observation { source, what, at_us, seen: Moment::default(), took_ns: 0, reason: None, active: None }
    }

    fn holds(at_us: i64, states: States) -> Observation {
        observation(Source::Codes, What::Holds { states, asked_us: at_us }, at_us)
    }

    fn line(at_us: i64) -> Observation {
        let what = What::Transition { from: States::only(HcState::Draining), to: HcState::Closing };
        observation(Source::Log, what, at_us)
    }

    /// Exercises instants before, at and after a change, so that each has its states.
    #[test]
    fn states_at_instants() {
        let mut record = Record::default();
        assert_eq!(record.states_at(0), States::ANY);
        record.push(line(10));
        assert_eq!(record.states_at(9), States::only(HcState::Draining));
        assert_eq!(record.states_at(10), States::only(HcState::Closing));
        assert_eq!(record.states_at(i64::MAX), States::only(HcState::Closing));
    }

    /// Exercises a change that a poll found out, so that between the polls either is possible.
    #[test]
    fn states_between_polls() {
        let mut record = Record::default();
        record.push(holds(0, States::UP));
        record.push(holds(10_000_000, States::DOWN));
        let states = [0, 1, 9_999_999, 10_000_000].map(|at_us| record.states_at(at_us).shown_up());
        assert_eq!(states, [Some(true), None, None, Some(false)]);
    }

    /// What `/state` says when it is asked: the state, since when, and now.
    fn since(state: HcState, at_us: i64, now_us: i64) -> Observation {
        let seen = Moment { monotonic_ns: 0, utc_us: now_us };
        Observation { seen, ..observation(Source::State, What::Since(state), at_us) }
    }

    /// Exercises an hc that is not asked for a while and has meanwhile gone through a state that nobody told, so that nothing is said of
    /// the time between; and one that has gone to the next state, whose instant is known.
    #[test]
    fn states_that_were_passed() {
        const SECOND: i64 = 1_000_000;
        for (to, between, shown_up) in [
            (HcState::Draining, HcState::Open, Some(true)),
            (HcState::Closing, HcState::Unknown, Some(true)),
            (HcState::Closed, HcState::Unknown, None),
        ] {
            let mut record = Record::default();
            for second in 1..=5 {
                record.push(since(HcState::Open, 0, second * SECOND));
            }
            record.push(since(to, 30 * SECOND, 35 * SECOND));
            let states = [0, 4, 20, 30, 40].map(|second| record.states_at(second * SECOND).state());
            assert_eq!(states, [HcState::Open, HcState::Open, between, to, to]);
            assert_eq!(record.states_at(20 * SECOND).shown_up(), shown_up);
        }
    }

    /// Exercises a long life, so that memory is bounded and the present is known.
    #[test]
    fn a_long_life() {
        let mut record = Record::default();
        for second in 0..10_000 {
            let at = second * 1_000_000;
            record.push(holds(at, if second % 7 == 0 { States::UP } else { States::DOWN }));
            record.push(line(at));
            record.push(line(at));
        }
        assert!(record.named.len() <= MOST_NAMED && record.seen.len() <= MOST_SEEN);
        assert_eq!(record.states_at(i64::MAX), States::only(HcState::Closing));
    }

    proptest! {
        /// Exercises rows of polls, so that leaving the middle of a row out changes nothing.
        #[test]
        fn rows_are_as_good_as_their_ends(ups in prop::collection::vec(any::<bool>(), 0..60)) {
            let all: Vec<_> = ups
                .iter()
                .zip(0..)
                .map(|(up, index)| holds(index * 5_000_000, if *up { States::UP } else { States::ENDED }))
                .collect();
            let mut record = Record::default();
            all.iter().cloned().for_each(|observation| record.push(observation));
            prop_assert_eq!(record.changes(), merge(&all));
        }
    }
}
