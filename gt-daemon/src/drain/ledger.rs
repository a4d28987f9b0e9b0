//! Drains as the views see them: how many ended how, which go on, and the last records.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use prometheus_client::metrics::histogram::Histogram;

use super::{follow::View, record::Record, verdict::Outcome};

/// Facts of all kept records together: some 50 MB at most.
const MOST_FACTS: usize = 131_072;

/// Bounds of a drain's intervals, seconds.
const SECONDS: [f64; 12] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];

/// A pod's namespace and name.
pub type Name = (String, String);

/// Shared by the observer, which writes, and the views.
#[derive(Debug)]
pub struct Ledger {
    state: Mutex<State>,
    to_active_zero: Histogram,
    /// From then until the LB turned away; and the other way round, where it did so before.
    to_lb_down: Histogram,
    from_lb_down: Histogram,
    /// Records that were to be written to files and are not.
    unwritten: Arc<AtomicU64>,
    /// Records that are kept.
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    ended: BTreeMap<Name, BTreeMap<Outcome, u64>>,
    started: BTreeMap<Name, i64>,
    records: VecDeque<Arc<Record>>,
}

impl Ledger {
    /// Keeps the last `most` records.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            state: Mutex::default(),
            to_active_zero: Histogram::new(SECONDS),
            to_lb_down: Histogram::new(SECONDS),
            from_lb_down: Histogram::new(SECONDS),
            unwritten: Arc::default(),
            most,
        }
    }

    /// A drain is over.
    pub fn over(&self, record: &Arc<Record>) {
        if let Some(seconds) = record.intervals.drain_to_active_zero {
            self.to_active_zero.observe(seconds);
        }
        match record.intervals.active_zero_to_lb_down {
            // The sum of a histogram never falls: what is negative has one of its own.
            Some(seconds) if seconds < 0.0 => self.from_lb_down.observe(-seconds),
            Some(seconds) => self.to_lb_down.observe(seconds),
            None => {}
        }
        let name = (record.namespace.clone(), record.pod.clone());
        let mut state = self.lock();
        let outcomes = state.ended.entry(name).or_default();
        *outcomes.entry(record.outcome()).or_default() += 1;
        state.records.push_back(Arc::clone(record));
        let mut facts: usize = state.records.iter().map(|record| record.facts.len()).sum();
        while state.records.len() > self.most || facts > MOST_FACTS && state.records.len() > 1 {
            facts -= state.records.pop_front().map_or(0, |first| first.facts.len());
        }
    }

    /// The pods that are watched, and when the drain of each began, UTC microseconds. Counts of a name live as long as a
    /// pod of that name is watched. Of two pods of one name the one that is there is shown.
    pub fn watched<'a>(&self, pods: impl IntoIterator<Item = (&'a View, Option<i64>)>) {
        let (mut named, mut attributed) = (BTreeSet::new(), BTreeSet::new());
        let mut shown: BTreeMap<Name, (bool, Option<i64>)> = BTreeMap::new();
        for (view, begun) in pods {
            let name = (view.namespace.clone(), view.pod.clone());
            if view.attributed {
                attributed.insert(name.clone());
            }
            let now = (!view.gone, begun);
            let place = shown.entry(name.clone()).or_insert(now);
            *place = (*place).max(now);
            named.insert(name);
        }
        let mut state = self.lock();
        state.ended.retain(|name, _| named.contains(name));
        for name in attributed {
            let outcomes = state.ended.entry(name).or_default();
            for outcome in Outcome::ALL {
                outcomes.entry(outcome).or_default();
            }
        }
        state.started = shown.into_iter().filter_map(|(name, (_, begun))| Some((name, begun?))).collect();
    }

    /// How many drains ended how, by name.
    #[must_use]
    pub fn ended(&self) -> BTreeMap<Name, BTreeMap<Outcome, u64>> {
        self.lock().ended.clone()
    }

    /// When drains began, UTC microseconds, by name.
    #[must_use]
    pub fn started(&self) -> BTreeMap<Name, i64> {
        self.lock().started.clone()
    }

    /// The last records, the oldest first.
    #[must_use]
    pub fn records(&self) -> Vec<Arc<Record>> {
        self.lock().records.iter().cloned().collect()
    }

    /// How long it took until nothing was in flight, in seconds.
    #[must_use]
    pub fn to_active_zero(&self) -> &Histogram {
        &self.to_active_zero
    }

    /// From there until the LB turned away, in seconds.
    #[must_use]
    pub fn to_lb_down(&self) -> &Histogram {
        &self.to_lb_down
    }

    /// How long before there it turned away, where it did, in seconds.
    #[must_use]
    pub fn from_lb_down(&self) -> &Histogram {
        &self.from_lb_down
    }

    /// Records that were to be written to files and are not.
    #[must_use]
    pub fn unwritten(&self) -> u64 {
        self.unwritten.load(Ordering::Relaxed)
    }

    /// The count of those.
    #[must_use]
    pub fn unwritten_count(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.unwritten)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::fact::{Fact, Timed};

    fn view(uid: &str, pod: &str, gone: bool) -> View {
        View {
            uid: uid.into(),
            namespace: "n".to_owned(),
            pod: pod.to_owned(),
            deletion: None,
            gone,
            attributed: true,
            has_hc: false,
            has_envoy: false,
        }
    }

    fn record(pod: &str, facts: usize) -> Arc<Record> {
        let deleted = |ts| Timed { ts, fact: Fact::PodDeleted { grace_seconds: 1 } };
        let facts = (0..).take(facts).map(deleted).collect();
        Arc::new(Record::of("n", pod, "u", facts, 0).unwrap())
    }

    fn name(pod: &str) -> Name {
        ("n".to_owned(), pod.to_owned())
    }

    /// Exercises names over the lives of their pods, so that each has its three counts at zero before its first drain,
    /// keeps them while a pod of the name is there, and loses them with it.
    #[test]
    fn counts() {
        let ledger = Ledger::new(10);
        let (old, new) = (view("1", "a", true), view("2", "a", false));
        let hidden = View { attributed: false, ..view("3", "b", false) };
        ledger.watched([(&old, Some(7)), (&hidden, None)]);
        assert_eq!(ledger.ended()[&name("a")].values().collect::<Vec<_>>(), [&0, &0, &0]);
        assert_eq!(ledger.ended().len(), 1);
        ledger.over(&record("a", 1));
        assert_eq!(ledger.started(), [(name("a"), 7)].into());
        ledger.watched([(&old, Some(7)), (&new, None)]);
        assert!(ledger.started().is_empty(), "the one that is there does not drain");
        ledger.watched([(&new, Some(9))]);
        assert_eq!(ledger.ended()[&name("a")][&Outcome::Inconclusive], 1);
        assert_eq!(ledger.started(), [(name("a"), 9)].into());
        ledger.watched([]);
        assert!(ledger.ended().is_empty() && ledger.started().is_empty());
    }

    /// Exercises many and large records, so that the last ones are kept in bounded memory.
    #[test]
    fn bounds() {
        let ledger = Ledger::new(3);
        for pod in ["a", "b", "c", "d"] {
            ledger.over(&record(pod, 1));
        }
        let kept = || ledger.records().iter().map(|record| record.pod.clone()).collect::<Vec<_>>();
        assert_eq!(kept(), ["b", "c", "d"]);
        ledger.over(&record("large", MOST_FACTS));
        assert_eq!(kept(), ["large"]);
    }
}
