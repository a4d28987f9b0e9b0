//! The facts of one drain while it goes on, in bounded memory.

use std::collections::BTreeSet;

use super::fact::{Fact, Source, Timed};

/// What a verdict needs, and details, of one drain at most: twenty ends a second for ten minutes.
const MOST: usize = 4_096;
const MOST_DETAILS: usize = 12_288;

/// What led to a drain is told too, microseconds.
const BEFORE: i64 = 5_000_000;

/// Facts in order of time, each once.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    all: BTreeSet<Timed>,
    details: BTreeSet<Timed>,
    /// Details that found no room: told by number. Of anything else the loss is a gap.
    left_out: u64,
    lost: u64,
    /// Facts up to this instant gave way before anybody knew that they are a drain's.
    forgotten: Option<i64>,
    /// The last number of requests in flight among those that gave way.
    active: Option<Fact>,
}

impl Facts {
    /// Takes a fact in.
    pub fn add(&mut self, timed: Timed) {
        let is_detail = timed.fact.is_detail();
        let (set, most) = if is_detail { (&mut self.details, MOST_DETAILS) } else { (&mut self.all, MOST) };
        if set.len() < most || set.contains(&timed) {
            set.insert(timed);
        } else if is_detail {
            self.left_out += 1;
        } else {
            self.lost += 1;
        }
    }

    /// The instant of the first one.
    #[must_use]
    pub fn first(&self) -> Option<i64> {
        [&self.all, &self.details].into_iter().filter_map(BTreeSet::first).map(|first| first.ts).min()
    }

    /// Forgets what happened before an instant, and keeps `most` of the rest of either kind, the newest.
    pub fn trim(&mut self, before: i64, most: usize) {
        while self.details.first().is_some_and(|first| first.ts < before || self.details.len() > most) {
            let first = self.details.pop_first().map(|first| first.fact);
            if let Some(fact @ Fact::EnvoyActiveCount { .. }) = first {
                self.active = Some(fact);
            }
        }
        while self.all.first().is_some_and(|first| first.ts < before || self.all.len() > most) {
            let gave_way = self.all.pop_first().map(|first| first.ts);
            self.forgotten = gave_way.max(self.forgotten);
        }
    }

    /// Whether there is such a fact.
    pub fn any(&self, fact: &Fact) -> bool {
        let set = if fact.is_detail() { &self.details } else { &self.all };
        set.iter().any(|timed| timed.fact == *fact)
    }

    /// Those of a drain from an instant on, and a little before it, with further ones, as a list in order; `now`: the
    /// stamp of a gap for what was lost.
    #[must_use]
    pub fn list(&self, begun: i64, further: impl IntoIterator<Item = Timed>, now: i64) -> Vec<Timed> {
        let mut all: BTreeSet<Timed> = self.all.union(&self.details).cloned().collect();
        all.extend(further);
        let mut gap = |why: String| {
            all.insert(Timed { ts: now, fact: Fact::Gap { source: Source::Record, length_us: 0, why } });
        };
        if self.lost > 0 {
            gap(format!("{} facts found no room", self.lost));
        }
        if self.forgotten.is_some_and(|until| until >= begun) {
            gap("they were forgotten before it was known that the pod drains".to_owned());
        }
        // What was in flight at the beginning was told when it changed last.
        let is_count = |timed: &&Timed| matches!(timed.fact, Fact::EnvoyActiveCount { .. });
        let before = all.iter().rev().find(|timed| timed.ts <= begun && is_count(timed));
        let active = before.map(|timed| timed.fact.clone()).or_else(|| self.active.clone());
        all.retain(|timed| timed.ts >= begun.saturating_sub(BEFORE));
        all.extend(active.map(|fact| Timed { ts: begun, fact }));
        all.into_iter().collect()
    }

    /// Details that are not in the list.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Those from an instant on, for the next drain.
    #[must_use]
    pub fn since(&self, from: i64) -> Self {
        let later = |set: &BTreeSet<Timed>| set.iter().filter(|timed| timed.ts >= from).cloned().collect();
        let count = |timed: &Timed| match &timed.fact {
            fact @ Fact::EnvoyActiveCount { .. } if timed.ts < from => Some(fact.clone()),
            _ => None,
        };
        let active = self.details.iter().rev().find_map(count).or_else(|| self.active.clone());
        Self { all: later(&self.all), details: later(&self.details), active, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(ts: i64) -> Timed {
        Timed { ts, fact: Fact::PodGone }
    }

    fn connections(ts: i64) -> Timed {
        Timed { ts, fact: Fact::Connections { active: 1, closing: 0 } }
    }

    fn active(ts: i64, count: u64) -> Timed {
        Timed { ts, fact: Fact::EnvoyActiveCount { downstream: Some(count), upstream: Some(count) } }
    }

    fn is_gap(timed: &Timed) -> bool {
        matches!(timed.fact, Fact::Gap { source: Source::Record, .. })
    }

    /// Exercises more facts than there is room for, so that memory is bounded, details leave room for what matters, and the
    /// loss of that is a gap.
    #[test]
    fn bounds() {
        let mut facts = Facts::default();
        for ts in 0..20_000 {
            facts.add(connections(ts));
        }
        facts.add(connections(3));
        assert_eq!((facts.details.len(), facts.left_out()), (MOST_DETAILS, 20_000 - MOST_DETAILS as u64));
        facts.add(gone(30_000));
        let list = facts.list(0, [gone(40_000)], 50_000);
        assert!(list.len() == MOST_DETAILS + 2 && !list.iter().any(is_gap));
        for ts in 0..5_000 {
            facts.add(gone(ts));
        }
        assert!(facts.list(0, [], 50_000).last().is_some_and(is_gap));
    }

    /// Exercises facts that give way, by number or by age, before a drain is known, so that their loss is a gap when they were the drain's.
    #[test]
    fn too_many_before() {
        let mut facts = Facts::default();
        for ts in 0..100 {
            facts.add(gone(ts));
            facts.add(connections(ts));
        }
        facts.trim(20, 50);
        assert_eq!((facts.all.len(), facts.details.len(), facts.forgotten), (50, 50, Some(49)));
        assert!(facts.list(49, [], 200).last().is_some_and(is_gap));
        assert!(!facts.list(50, [], 200).iter().any(is_gap));
        // Told so late that they are too old.
        facts.trim(300, 50);
        assert!(facts.list(99, [], 400).last().is_some_and(is_gap));
    }

    /// Exercises a proxy whose number of requests has not changed for long, so that it stands at the drain's beginning.
    #[test]
    fn what_is_in_flight_at_the_beginning() {
        let mut facts = Facts::default();
        facts.add(active(1, 7));
        facts.trim(100, 50);
        let begun = 200 + BEFORE;
        assert_eq!(facts.list(begun, [], begun), [active(begun, 7)]);
        facts.add(active(150, 2));
        facts.add(active(begun + 50, 0));
        assert_eq!(facts.list(begun, [], begun), [active(begun, 2), active(begun + 50, 0)]);
        let later = begun + 100;
        assert_eq!(facts.since(later).list(later, [], later), [active(later, 0)]);
    }
}
