//! What is known of one pod, under one name, through its restarts. Pure.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;

use super::{
    event::{Events, Kind},
    marks::Marks,
    steps::Steps,
    words,
};
use crate::{
    api::message::PodStatus,
    drain::{
        fact::{Fact, Hc, Serving},
        record::Summary,
    },
};

/// UIDs that this name had before are remembered, so that what is told late of them is known for that.
const MOST_UIDS: usize = 8;
/// Verdicts of a name are kept: the newest.
const MOST_VERDICTS: usize = 4;
/// Servers of LBs whose words are kept apart.
const MOST_SERVERS: usize = 16;

/// Where the LB stands. Of several servers' words the worst counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lb {
    Told(Serving),
    /// It should be down by now, and nobody saw it.
    Predicted,
}

/// One pod.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    /// Of the pod that has the name now.
    pub uid: String,
    before: VecDeque<String>,
    /// As told last, of this UID.
    pub status: Option<PodStatus>,
    pub hc: Steps<Option<Hc>>,
    /// The code that the LB is told.
    pub told: Steps<Option<u16>>,
    pub lb: Steps<Option<Lb>>,
    servers: BTreeMap<String, Option<Serving>>,
    /// Requests in flight at the proxy: the larger of both its sides, since one request is on both.
    pub in_flight: Steps<Option<u64>>,
    /// Open connections of users.
    pub connections: Steps<Option<u64>>,
    pub marks: Marks,
    pub events: Events,
    verdicts: VecDeque<Summary>,
}

/// What is to be told of a change, beside the fact itself.
pub type Told = (i64, Kind, String);

impl Pod {
    /// Takes in how the pod is. What is worth a line comes back.
    pub fn status(&mut self, status: PodStatus) -> Option<Told> {
        let now = micros(&status.now)?;
        if self.before.contains(&status.uid) {
            return None;
        }
        let mut told = None;
        if self.uid != status.uid {
            told = self.restart(&status.uid, now);
        }
        if self.status.as_ref().and_then(|known| micros(&known.now)).is_some_and(|known| known > now) {
            return told;
        }
        match &status.hc {
            Some(hc) => {
                let since = hc.since.as_deref().and_then(micros).filter(|since| *since <= now);
                let since = since.unwrap_or(now);
                self.change_hc(since, hc.state, hc.lb_told, now);
            }
            None => self.change_hc(now, None, None, now),
        }
        // What a daemon never told is not lost when it does not tell it: facts may know it.
        let before = self.status.as_ref();
        let knows_lb = status.lb.is_some() || before.is_some_and(|before| before.lb.is_some());
        let knows_connections =
            status.connections.is_some() || before.is_some_and(|before| before.connections.is_some());
        if knows_lb {
            self.latest(now, |pod| &mut pod.lb, status.lb.map(Lb::Told));
        }
        self.latest(now, |pod| &mut pod.in_flight, in_flight(status.downstream, status.upstream));
        if knows_connections {
            let active = status.connections.map(|connections| connections.data.active);
            self.latest(now, |pod| &mut pod.connections, active);
        }
        self.status = Some(status);
        told
    }

    /// What holds now, without knowing since when: a step only where the last one says another thing.
    fn latest<T: Copy + PartialEq>(
        &mut self,
        now: i64,
        of: impl Fn(&mut Self) -> &mut Steps<Option<T>>,
        value: Option<T>,
    ) {
        let steps = of(self);
        match steps.last() {
            Some((at, known)) if known != value => steps.set(at.max(now), value),
            None if value.is_some() => steps.set(now, value),
            _ => {}
        }
    }

    fn change_hc(&mut self, since: i64, state: Option<Hc>, told: Option<u16>, now: i64) {
        if self.hc.last().is_none_or(|(_, known)| known != state) {
            // What was seen later stands.
            let after = self.hc.last().is_some_and(|(at, _)| at > since);
            self.hc.set(if after { now } else { since }, state);
        }
        if self.told.last().is_none_or(|(_, known)| known != told) {
            let after = self.told.last().is_some_and(|(at, _)| at > since);
            self.told.set(if after { now } else { since }, told);
        }
    }

    /// Another pod has the name from now on.
    fn restart(&mut self, uid: &str, now: i64) -> Option<Told> {
        let known = std::mem::replace(&mut self.uid, uid.to_owned());
        self.status = None;
        self.servers.clear();
        if known.is_empty() {
            return None;
        }
        self.before.push_back(known);
        if self.before.len() > MOST_UIDS {
            self.before.pop_front();
        }
        self.unknown(now);
        Some((now, Kind::Pod, format!("another pod has this name now: UID {uid}")))
    }

    /// From an instant on nothing is known.
    pub fn unknown(&mut self, ts: i64) {
        if !self.hc.is_empty() {
            self.hc.set(ts, None);
            self.told.set(ts, None);
        }
        if !self.lb.is_empty() {
            self.lb.set(ts, None);
        }
        if !self.in_flight.is_empty() {
            self.in_flight.set(ts, None);
        }
        if !self.connections.is_empty() {
            self.connections.set(ts, None);
        }
    }

    /// Takes a fact in, of the pod that has the name or had it.
    pub fn fact(&mut self, uid: &str, ts: i64, fact: &Fact) {
        if self.uid.is_empty() {
            uid.clone_into(&mut self.uid);
        }
        match fact {
            Fact::TcpTeardown(end) => self.marks.end(ts, end),
            Fact::TcpRst { .. } => self.marks.rst(ts),
            // What held of the pod that had the name before says nothing of this one.
            _ if uid != self.uid && self.before.iter().any(|before| before == uid) => {}
            Fact::HcState { to, lb_told, .. } => {
                self.hc.set(ts, *to);
                self.told.set(ts, *lb_told);
            }
            Fact::LbStatus { server, serving, .. } => self.lb_word(ts, server, *serving),
            Fact::HaproxyBackendDown { server, predicted: false, .. } => {
                self.lb_word(ts, server, Some(Serving::Down));
            }
            // What is seen goes before what is computed.
            Fact::HaproxyBackendDown { predicted: true, .. }
                if self.lb.last().is_none_or(|(_, lb)| lb.is_none()) =>
            {
                self.lb.set(ts, Some(Lb::Predicted));
            }
            Fact::EnvoyActiveCount { downstream, upstream } => {
                self.in_flight.set(ts, in_flight(*downstream, *upstream));
            }
            Fact::Connections { active, .. } => self.connections.set(ts, Some(*active)),
            _ => {}
        }
    }

    fn lb_word(&mut self, ts: i64, server: &str, word: Option<Serving>) {
        if self.servers.len() < MOST_SERVERS || self.servers.contains_key(server) {
            self.servers.insert(server.to_owned(), word);
        }
        self.lb.set(ts, self.servers.values().flatten().max().copied().map(Lb::Told));
    }

    /// A drain of it is over.
    pub fn verdict(&mut self, summary: Summary, at: i64) -> Told {
        let ts = summary.ended.as_deref().and_then(micros).unwrap_or(at);
        let told = (ts, Kind::Pod, words::verdict(&summary));
        self.verdicts.push_back(summary);
        if self.verdicts.len() > MOST_VERDICTS {
            self.verdicts.pop_front();
        }
        told
    }

    /// The verdict on its newest drain.
    #[must_use]
    pub fn last_verdict(&self) -> Option<&Summary> {
        self.verdicts.back()
    }

    /// Since when it drains: `None` when it does not, or the verdict on that drain is told.
    #[must_use]
    pub fn draining_since(&self) -> Option<i64> {
        let began = self.status.as_ref()?.drain_began.as_deref()?;
        let over = self
            .last_verdict()
            .is_some_and(|verdict| verdict.uid == self.uid && verdict.began.as_deref() >= Some(began));
        micros(began).filter(|_| !over)
    }

    /// Whether its source names it no longer.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.gone)
    }
}

/// The larger of both sides of the proxy.
fn in_flight(downstream: Option<u64>, upstream: Option<u64>) -> Option<u64> {
    downstream.max(upstream)
}

/// An RFC 3339 stamp in UTC microseconds.
#[must_use]
pub fn micros(stamp: &str) -> Option<i64> {
    stamp.parse::<Timestamp>().ok().map(Timestamp::as_microsecond)
}
