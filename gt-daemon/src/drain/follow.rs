//! Drains as they go on: which pods drain, what is noted of them, and when a drain is over. Pure; time is an argument.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub use super::pod::View;
use super::{
    end,
    fact::{Fact, Source, Timed},
    intervals::Intervals,
    news::Word,
    pod::Pod,
    record::Record,
};
use crate::{
    clock::Moment,
    correlate::judged::{Judged, LateReset},
    hc::merge::Change,
    lb::{follow::Said, predict::Prediction},
};

/// What holds for all drains.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// How long after a pod is gone its last connections are waited for, microseconds: it must be shorter than the pod is kept.
    pub patience: i64,
    /// The names of the LBs that are asked while a pod drains.
    pub lbs: Vec<Arc<str>>,
    /// When the LB is expected to turn away where none has told.
    pub prediction: Option<Prediction>,
}

/// All pods' drains.
#[derive(Debug)]
pub struct Drains {
    pods: BTreeMap<Arc<str>, Pod>,
    rules: Rules,
    /// Whether anybody wants to hear of facts as they come.
    listens: bool,
}

impl Drains {
    /// Of no pods yet, and without an LB; `patience`: see [`Rules`].
    #[must_use]
    pub fn new(patience: i64) -> Self {
        Self::with(Rules { patience, ..Rules::default() })
    }

    /// Of no pods yet. After the rules' patience from a pod's being gone its drain is judged by what is known.
    #[must_use]
    pub fn with(rules: Rules) -> Self {
        Self { pods: BTreeMap::new(), rules, listens: false }
    }

    /// The pods that are watched now. Returns the records of those that are no more, as far as they go.
    pub fn pods(&mut self, views: &[View], now: Moment) -> Vec<Record> {
        let now = now.utc_us;
        let rules = &self.rules;
        let views: BTreeMap<&str, &View> = views.iter().map(|view| (&*view.uid, view)).collect();
        let mut records = Vec::new();
        self.pods.retain(|uid, pod| {
            // One that was forgotten and came back between two looks is another life of the same name.
            let stays = views.get(&**uid).is_some_and(|view| Arc::ptr_eq(&view.uid, &pod.view.uid));
            if !stays {
                records.extend(pod.record(now, rules));
            }
            stays
        });
        for view in views.into_values() {
            let known = self.pods.entry(Arc::clone(&view.uid));
            let listens = self.listens;
            known.and_modify(|pod| pod.see(view, now)).or_insert_with(|| Pod::new(view, listens, now));
        }
        records
    }

    /// Whether facts are told as they come, by [`Self::news`]. At first they are not.
    pub fn listen(&mut self, listens: bool) {
        self.listens = listens;
        self.pods.values_mut().for_each(|pod| pod.news.listen(listens));
    }

    /// What was noted since the last call, pod by pod, and how good the word is.
    pub fn news(&mut self) -> Vec<(Arc<str>, Word, Timed)> {
        let mut all = Vec::new();
        for (uid, pod) in &mut self.pods {
            all.extend(pod.news.take().into_iter().map(|(word, timed)| (Arc::clone(uid), word, timed)));
        }
        all
    }

    /// When a pod's drain began, UTC microseconds.
    #[must_use]
    pub fn began(&self, uid: &str) -> Option<i64> {
        self.pods.get(uid)?.shown()
    }

    /// The intervals of the drain that goes on, as far as they are known. As costly as its record.
    #[must_use]
    pub fn intervals(&self, uid: &str, now: Moment) -> Option<Intervals> {
        Some(self.pods.get(uid)?.record(now.utc_us, &self.rules)?.intervals)
    }

    /// The drains that go on, as far as they are known: of the pod with this UID, or of all.
    #[must_use]
    pub fn going_on(&self, uid: Option<&str>, now: Moment) -> Vec<Record> {
        let wanted = self.pods.iter().filter(|(known, _)| uid.is_none_or(|uid| uid == &***known));
        wanted.filter_map(|(_, pod)| pod.record(now.utc_us, &self.rules)).collect()
    }

    /// All that is known of a pod's hc by now, and whether it has just answered.
    pub fn hc(&mut self, uid: &str, changes: Vec<Change>, answered: bool, now: Moment) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.hc(changes, answered, now.utc_us);
        }
    }

    /// The proxy told how many requests are in flight, and whether it drains; at the instant of its answer.
    pub fn envoy(&mut self, uid: &str, active: (Option<u64>, Option<u64>), drains: Option<bool>, at: Moment) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.envoy(active, drains, at.utc_us);
        }
    }

    /// The proxy's counts are comparable with those of the same epoch only.
    pub fn counts(&mut self, uid: &str, epoch: u64, at: Moment) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.counts(epoch, at.utc_us);
        }
    }

    /// An LB said something of a pod; what it says before a drain begins is kept for a while.
    pub fn lb(&mut self, uid: &str, said: Vec<Said>) {
        if let Some(pod) = self.pods.get_mut(uid) {
            said.into_iter().for_each(|said| pod.add(said.ts, Fact::of_lb(said)));
        }
    }

    /// An LB answered; `lists`: whether it told of the pod.
    pub fn lb_answers(&mut self, uid: &str, lb: &Arc<str>, lists: bool, at: Moment) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.lb_answers(lb, lists, at.utc_us);
        }
    }

    /// Whose connections somebody should count now, and of whom LBs should be asked; and when the drain of each began, UTC
    /// microseconds.
    #[must_use]
    pub fn draining(&self) -> Vec<(Arc<str>, i64)> {
        self.pods.iter().filter_map(|(uid, pod)| Some((Arc::clone(uid), pod.begun()?))).collect()
    }

    /// Connections of users, established and closing.
    pub fn connections(&mut self, uid: &str, active: u64, closing: u64, now: Moment) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.connections(active, closing, now.utc_us);
        }
    }

    /// The join has judged an end.
    pub fn judged(&mut self, judged: &Judged, now: Moment) {
        let Some(pod) = self.pods.get_mut(&judged.uid) else { return };
        let at = now.utc_of(judged.at_ns);
        let word = if judged.again { Word::Better } else { Word::Told };
        end::facts(judged).for_each(|fact| pod.note(word, Timed { ts: at, fact }));
    }

    /// An RST of a connection that had been judged.
    pub fn late_reset(&mut self, late: &LateReset, now: Moment) {
        if let Some(pod) = self.pods.get_mut(&late.uid) {
            pod.add(now.utc_of(late.at_ns), end::late_reset(late));
        }
    }

    /// Something of a source was lost: nobody knows whose.
    pub fn lost(&mut self, source: Source, why: &str, now: Moment) {
        self.pods.values_mut().for_each(|pod| pod.lost(source, why, now.utc_us));
    }

    /// gt itself did not run for so long, microseconds, up to now.
    pub fn stalled(&mut self, length_us: i64, now: Moment) {
        self.pods.values_mut().for_each(|pod| pod.stalled(length_us, now.utc_us));
    }

    /// UTC was set by so much, microseconds, forward or back: `now` is the first instant by the new clock. Returns the records of the
    /// drains that go on, up to now; what comes after is a drain's of its own. Neither is protected.
    pub fn clock_was_set(&mut self, by_us: i64, now: Moment) -> Vec<Record> {
        let way = if by_us < 0 { "back" } else { "forward" };
        let by = Duration::from_micros(by_us.unsigned_abs());
        let why = format!("the clock was set {way} by {:.1} s", by.as_secs_f64());
        let before = now.utc_us.saturating_sub(by_us);
        let rules = &self.rules;
        let pods = self.pods.values_mut();
        pods.filter_map(|pod| pod.clock_was_set(before, now.utc_us, &why, rules)).collect()
    }

    /// Nobody looks any more: the records of all drains that go on, as far as they are known.
    #[must_use]
    pub fn stop(&mut self, now: Moment) -> Vec<Record> {
        let pods = std::mem::take(&mut self.pods).into_values();
        pods.filter_map(|pod| pod.record(now.utc_us, &self.rules)).collect()
    }

    /// Lets time pass; returns the records of drains that are over.
    pub fn tick(&mut self, now: Moment) -> Vec<Record> {
        let rules = &self.rules;
        self.pods.values_mut().filter_map(|pod| pod.tick(now.utc_us, rules)).collect()
    }

    /// Each pod, and when its drain began, UTC microseconds: that of a pod that is gone stays when it is over.
    pub fn begun(&self) -> impl Iterator<Item = (&View, Option<i64>)> {
        self.pods.values().map(|pod| (&pod.view, pod.shown()))
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
