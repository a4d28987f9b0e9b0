//! The facts of one drain, in bounded memory, and what is made of them at its end.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    fact::{Fact, Source, Timed},
    intervals::{Intervals, intervals},
    verdict::{Outcome, Verdict, verdict},
};

/// Facts of one drain at most: a drain of ten minutes with twenty ends a second.
const MOST: usize = 16_384;

/// A drain that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    pub verdict: Verdict,
    pub intervals: Intervals,
    /// In order of time.
    #[serde(skip)]
    pub facts: Vec<Timed>,
}

/// Facts in order of time, each once.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    all: BTreeSet<Timed>,
    /// Ends that cut nothing for certain and found no room: told by number. Of anything else the loss is a gap.
    left_out: u64,
    lost: u64,
}

impl Facts {
    /// Takes a fact in.
    pub fn add(&mut self, timed: Timed) {
        if self.all.len() < MOST || self.all.contains(&timed) {
            self.all.insert(timed);
            return;
        }
        match &timed.fact {
            Fact::TcpTeardown(end) if end.evidence.is_none() && end.sure => self.left_out += 1,
            // How many were open or in flight in between is a detail.
            Fact::Connections { .. } | Fact::EnvoyActiveCount { .. } => self.left_out += 1,
            _ => self.lost += 1,
        }
    }

    /// Forgets what happened before an instant, and keeps `most` of the rest, the newest.
    pub fn trim(&mut self, before: i64, most: usize) {
        while self.all.first().is_some_and(|first| first.ts < before || self.all.len() > most) {
            self.all.pop_first();
        }
    }

    /// In order of time.
    pub fn iter(&self) -> impl Iterator<Item = &Timed> {
        self.all.iter()
    }

    /// With further facts, as a list in order; `at`: the stamp of a gap for what was lost.
    #[must_use]
    pub fn list(&self, further: impl IntoIterator<Item = Timed>, at: i64) -> Vec<Timed> {
        let mut all = self.all.clone();
        all.extend(further);
        if self.lost > 0 {
            let why = format!("{} facts found no room", self.lost);
            all.insert(Timed { ts: at, fact: Fact::Gap { source: Source::Record, length_us: 0, why } });
        }
        all.into_iter().collect()
    }
}

impl Record {
    /// Judges facts in order; `None` when they tell of no drain.
    #[must_use]
    pub fn of(namespace: &str, pod: &str, uid: &str, facts: Vec<Timed>) -> Option<Self> {
        let verdict = verdict(&facts)?;
        let intervals = intervals(&facts);
        Some(Self {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            uid: uid.to_owned(),
            verdict,
            intervals,
            facts,
        })
    }

    /// When it began, UTC microseconds.
    #[must_use]
    pub fn begun(&self) -> Option<i64> {
        super::verdict::Picture::of(&self.facts).map(|picture| picture.begun)
    }

    /// The verdict alone.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.verdict.outcome
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

    /// Exercises more facts than there is room for, so that memory is bounded and what matters is a gap when it is lost.
    #[test]
    fn bounds() {
        let mut facts = Facts::default();
        for ts in 0..20_000 {
            facts.add(connections(ts));
        }
        assert_eq!((facts.all.len(), facts.lost), (MOST, 0));
        facts.add(connections(3));
        facts.add(gone(30_000));
        let list = facts.list([gone(40_000)], 50_000);
        assert_eq!(list.len(), MOST + 2);
        assert!(matches!(&list[MOST + 1].fact, Fact::Gap { source: Source::Record, .. }));
        facts.trim(10_000, 100);
        assert_eq!(facts.all.len(), 100);
        assert!(facts.all.first().is_some_and(|first| first.ts >= 10_000));
    }
}
