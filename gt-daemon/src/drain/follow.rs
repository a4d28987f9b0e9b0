//! Drains as they go on: which pods drain, what is noted of them, and when a drain is over. Pure; time is an argument.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    fact::{End, Fact, Hc, Source, Timed, Way},
    record::{Facts, Record},
};
use crate::{
    clock::Moment,
    correlate::{judged::Judged, torn::Direction},
    hc::merge::Change,
};

/// How long after the end late words are waited for, microseconds: longer than the join waits.
const LATE: i64 = 6_000_000;

/// Before a drain has begun facts are kept this long, since its beginning may be told late, and so many.
const KEPT: i64 = 30_000_000;
const KEPT_MOST: usize = 512;

/// A source that is silent for longer has not seen that time, microseconds.
const SILENCE: i64 = 5_000_000;

/// What is known of a pod from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub uid: Arc<str>,
    pub namespace: String,
    pub pod: String,
    /// When its deletion was asked for, UTC microseconds, and how long it may take, in seconds.
    pub deletion: Option<(i64, i64)>,
    pub gone: bool,
    /// Whether its sockets are known.
    pub attributed: bool,
    pub has_hc: bool,
    pub has_envoy: bool,
}

/// A source of one pod, and when it was silent.
#[derive(Clone, Copy, Debug, Default)]
struct Voice {
    /// When it answered last, UTC microseconds.
    answered: Option<i64>,
}

/// One pod.
#[derive(Debug)]
struct Pod {
    view: View,
    since: i64,
    facts: Facts,
    changes: Vec<Change>,
    hc: Voice,
    envoy: Voice,
    /// What was noted last, so that only changes are.
    active: Option<(Option<u64>, Option<u64>)>,
    connections: Option<(u64, u64)>,
    /// When a connection of a user was last there.
    connected: Option<i64>,
    /// What is older belongs to a drain before.
    floor: i64,
    was_attributed: bool,
    ended: Option<i64>,
}

/// All pods' drains.
#[derive(Debug, Default)]
pub struct Drains {
    pods: BTreeMap<Arc<str>, Pod>,
}

impl Drains {
    /// The pods that are watched now. Returns the records of those that are no more, as far as they go.
    pub fn pods(&mut self, views: &[View], now: Moment) -> Vec<Record> {
        for view in views {
            let pod =
                self.pods.entry(Arc::clone(&view.uid)).or_insert_with(|| Pod::new(view.clone(), now.utc_us));
            pod.see(view, now.utc_us);
        }
        let known = |uid: &Arc<str>| views.iter().any(|view| view.uid == *uid);
        let over: Vec<_> = self.pods.keys().filter(|uid| !known(uid)).cloned().collect();
        over.iter().filter_map(|uid| self.pods.remove(uid)).filter_map(|pod| pod.record(now.utc_us)).collect()
    }

    /// All that is known of a pod's hc by now, and whether it has just answered.
    pub fn hc(&mut self, uid: &str, changes: Vec<Change>, answered: bool, now: Moment) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.changes = changes;
            if answered {
                pod.answered(Source::Hc, now.utc_us);
            }
        }
    }

    /// The proxy told how many requests are in flight, and whether it drains; at the instant of its answer.
    pub fn envoy(&mut self, uid: &str, active: (Option<u64>, Option<u64>), drains: Option<bool>, at: Moment) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.answered(Source::Envoy, at.utc_us);
        if pod.active.replace(active) != Some(active) {
            let (downstream, upstream) = active;
            pod.add(at.utc_us, Fact::EnvoyActiveCount { downstream, upstream });
        }
        if drains == Some(true) && !pod.facts.iter().any(|timed| timed.fact == Fact::EnvoyDrainListeners) {
            pod.add(at.utc_us, Fact::EnvoyDrainListeners);
        }
    }

    /// Whether somebody should count the pod's connections now.
    #[must_use]
    pub fn draining(&self) -> Vec<Arc<str>> {
        self.pods.iter().filter(|(_, pod)| pod.begun().is_some()).map(|(uid, _)| Arc::clone(uid)).collect()
    }

    /// Connections of users, established and closing.
    pub fn connections(&mut self, uid: &str, active: u64, closing: u64, now: Moment) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if active + closing > 0 {
            pod.connected = Some(now.utc_us);
        }
        if pod.connections.replace((active, closing)) != Some((active, closing)) {
            pod.add(now.utc_us, Fact::Connections { active, closing });
        }
    }

    /// The join has judged an end.
    pub fn judged(&mut self, judged: &Judged, now: Moment) {
        let Some(pod) = self.pods.get_mut(&judged.uid) else { return };
        let ago = i64::try_from(now.monotonic_ns.saturating_sub(judged.at_ns) / 1000).unwrap_or(i64::MAX);
        let at = now.utc_us.saturating_sub(ago);
        let end = end(judged);
        if let (Some(direction), false) = (judged.rst, judged.again) {
            let direction = match direction {
                Direction::Sent => Way::Sent,
                Direction::Received => Way::Received,
            };
            let in_flight = end.evidence.is_some();
            pod.add(at, Fact::TcpRst { connection: end.connection, direction, in_flight });
        }
        pod.add(at, Fact::TcpTeardown(end));
    }

    /// Something of the kernel's was lost: nobody knows whose.
    pub fn lost(&mut self, why: &str, now: Moment) {
        for pod in self.pods.values_mut() {
            let gap = Fact::Gap { source: Source::Kernel, length_us: 0, why: why.to_owned() };
            pod.add(now.utc_us, gap);
        }
    }

    /// Lets time pass; returns the records of drains that are over.
    pub fn tick(&mut self, now: Moment) -> Vec<Record> {
        self.pods.values_mut().filter_map(|pod| pod.tick(now.utc_us)).collect()
    }

    /// When each drain that goes on began, UTC microseconds.
    pub fn begun(&self) -> impl Iterator<Item = (&View, i64)> {
        self.pods.values().filter_map(|pod| Some((&pod.view, pod.begun()?)))
    }
}

/// An end as a fact.
fn end(judged: &Judged) -> End {
    let known = judged.torn.map(|torn| torn.known);
    let word = |text: String| text.to_ascii_lowercase();
    End {
        connection: judged.torn.map(|torn| torn.id.socket.rotate_left(16) ^ torn.id.since_ns),
        how: judged.ending.word().to_owned(),
        evidence: judged.proof.map(|proof| proof.word().to_owned()),
        cause: judged.cause.word().to_owned(),
        sure: judged.sure,
        count: judged.count,
        phase: known.map(|known| word(format!("{:?}", known.phase))),
        protocol: known.map(|known| word(format!("{:?}", known.protocol))),
        remote: judged.torn.map(|torn| torn.event.remote.to_string()),
    }
}

impl Pod {
    fn new(view: View, now: i64) -> Self {
        Self {
            view,
            since: now,
            facts: Facts::default(),
            changes: Vec::new(),
            hc: Voice::default(),
            envoy: Voice::default(),
            active: None,
            connections: None,
            connected: None,
            floor: i64::MIN,
            was_attributed: false,
            ended: None,
        }
    }

    fn add(&mut self, ts: i64, fact: Fact) {
        self.facts.add(Timed { ts, fact });
    }

    fn see(&mut self, view: &View, now: i64) {
        if let (Some((asked, grace_seconds)), None) =
            (view.deletion, self.view.deletion.filter(|_| self.since < now))
        {
            self.add(asked, Fact::PodDeleted { grace_seconds });
        }
        if view.gone && !(self.view.gone && self.since < now) {
            self.add(now, Fact::PodGone);
        }
        self.was_attributed |= view.attributed;
        self.view = view.clone();
    }

    /// A source answered: if it was silent before, that is a gap, as far as users were connected.
    fn answered(&mut self, source: Source, at: i64) {
        let voice = if source == Source::Hc { &mut self.hc } else { &mut self.envoy };
        let silent_since = voice.answered.replace(at);
        if let Some(since) = silent_since
            && self.begun().is_some_and(|begun| begun < at)
            && let Some(gap) = self.silence(source, since, at)
        {
            self.add(at, gap);
        }
    }

    /// The gap of a source that was silent from one instant to another while users were connected, in the drain.
    fn silence(&self, source: Source, since: i64, until: i64) -> Option<Fact> {
        let from = since.max(self.begun()?);
        let until = until.min(self.connected?);
        let length_us = until.saturating_sub(from);
        (length_us > SILENCE).then(|| Fact::Gap {
            source,
            length_us,
            why: "it did not answer while users were connected".to_owned(),
        })
    }

    /// When the drain began, if one did.
    fn begun(&self) -> Option<i64> {
        let turned = self
            .hc_facts()
            .find(|(_, fact)| matches!(fact, Fact::HcState { to: Some(to), .. } if *to != Hc::Open));
        let turned = turned.map(|(ts, _)| ts);
        let deleted = self.view.deletion.map(|(asked, _)| asked).filter(|asked| *asked > self.floor);
        [turned, deleted].into_iter().flatten().min()
    }

    fn hc_facts(&self) -> impl Iterator<Item = (i64, Fact)> {
        self.changes.iter().filter(|change| change.at_us > self.floor).map(|change| {
            let (from, to) = (Hc::of(change.from.state()), Hc::of(change.to.state()));
            (change.at_us, Fact::HcState { from, to })
        })
    }

    fn tick(&mut self, now: i64) -> Option<Record> {
        let Some(begun) = self.begun() else {
            self.facts.trim(now.saturating_sub(KEPT).max(self.floor), KEPT_MOST);
            self.ended = None;
            return None;
        };
        if self.ended.is_none() {
            let called_off = self.called_off(begun);
            let is_empty = self.view.gone && self.connections == Some((0, 0));
            self.ended = called_off.or_else(|| is_empty.then_some(now));
        }
        let ended = self.ended.filter(|ended| now.saturating_sub(*ended) > LATE)?;
        let record = self.record(now);
        self.facts = Facts::default();
        self.floor = ended.max(begun);
        self.ended = None;
        record
    }

    /// When hc went back to OPEN, if the pod is not being deleted.
    fn called_off(&self, begun: i64) -> Option<i64> {
        let back = self.hc_facts().filter(|(ts, _)| *ts > begun).last()?;
        let is_open = matches!(back.1, Fact::HcState { to: Some(Hc::Open), .. });
        (is_open && self.view.deletion.is_none() && !self.view.gone).then_some(back.0)
    }

    /// What is known of the drain by now; `None` when none has begun.
    fn record(&self, now: i64) -> Option<Record> {
        let begun = self.begun()?;
        let mut further: Vec<_> = self.hc_facts().map(|(ts, fact)| Timed { ts, fact }).collect();
        let mut gap = |ts, source, length_us, why: &str| {
            further.push(Timed { ts, fact: Fact::Gap { source, length_us, why: why.to_owned() } });
        };
        if self.since > begun.saturating_add(1_000_000) {
            gap(self.since, Source::Pods, self.since - begun, "gt did not watch it yet");
        }
        if !self.was_attributed {
            gap(now, Source::Pods, 0, "nothing in the kernel led to its sockets");
        }
        for (source, has, voice) in [
            (Source::Hc, self.view.has_hc && !self.has_closed(), self.hc),
            (Source::Envoy, self.view.has_envoy, self.envoy),
        ] {
            match voice.answered {
                _ if !has => {}
                None => gap(now, source, 0, "it never answered"),
                Some(since) => {
                    if let Some(Fact::Gap { source, length_us, why }) = self.silence(source, since, now) {
                        gap(since.saturating_add(length_us), source, length_us, &why);
                    }
                }
            }
        }
        further.extend(self.ended.map(|ts| Timed { ts, fact: Fact::Ended }));
        let mut facts = self.facts.list(further, now);
        facts.retain(|timed| timed.ts > self.floor && timed.ts >= begun.saturating_sub(SILENCE));
        Record::of(&self.view.namespace, &self.view.pod, &self.view.uid, facts)
    }

    /// Whether hc has said its last word.
    fn has_closed(&self) -> bool {
        self.hc_facts().any(|(_, fact)| matches!(fact, Fact::HcState { to: Some(Hc::Closed), .. }))
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
