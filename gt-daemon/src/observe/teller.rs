//! Tells whoever listens: how pods are, and what happens to them. While nobody does, it does nothing.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::Arc,
};

use gt_common::{counters::Counters, owner::Slot};

use super::{board::Board, pod::PodState, seen, status::status};
use crate::{
    api::{
        desk::Request,
        hub::{About, Hub, Reader},
        message::{Message, PodStatus, Word},
    },
    clock::Moment,
    correlate::{Joined, Joins, judged::Judged, torn::Torn},
    drain::{
        fact::{Fact, Timed},
        follow::Drains,
        intervals::Intervals,
        record::Record,
    },
    probes::decode::Observed,
};

/// The intervals of a drain are computed at most so often, nanoseconds: they are as costly as its record.
const INTERVALS_EVERY: u64 = 1_000_000_000;

/// Events that wait for the next word of the ring's reader at most.
const MOST_SEEN: usize = 8192;

/// What is known of the pods, to be looked at.
#[derive(Clone, Copy)]
pub(super) struct Sight<'a> {
    pub(super) pods: &'a BTreeMap<Arc<str>, PodState>,
    pub(super) drains: &'a Drains,
    pub(super) joins: &'a Joins,
    pub(super) board: &'a Board,
    /// What the kernel counted for slots; `None` while slots go to other owners, or it cannot be read.
    pub(super) counters: &'a dyn Fn(&[Slot]) -> Option<Counters>,
    pub(super) now: Moment,
}

/// The observer's end of streams.
#[derive(Debug, Default)]
pub(super) struct Teller {
    node: Option<String>,
    hub: Hub,
    joined: BTreeMap<Arc<str>, Joined>,
    slots: HashMap<Slot, Arc<str>>,
    /// Ends that were seen and may be judged at once, and RSTs.
    seen: Vec<(Arc<str>, Seen)>,
    /// What was told of each pod last.
    last: BTreeMap<Arc<str>, Last>,
}

#[derive(Debug)]
enum Seen {
    Torn(Box<Torn>),
    Rst(u64, Fact),
}

#[derive(Debug, Default)]
struct Last {
    status: PodStatus,
    intervals: Intervals,
    /// When they were computed, `CLOCK_MONOTONIC` nanoseconds.
    computed: Option<u64>,
}

impl Teller {
    pub(super) fn new(node: Option<String>) -> Self {
        Self { node, ..Self::default() }
    }

    /// Whether anybody listens.
    pub(super) fn is_heard(&self) -> bool {
        self.hub.is_heard()
    }

    /// The pods that are watched now.
    pub(super) fn follow(&mut self, joined: &[Joined]) {
        self.joined = joined.iter().map(|joined| (Arc::clone(&joined.uid), joined.clone())).collect();
        let slots = |joined: &Joined| joined.slots.iter().map(|(slot, _)| *slot).collect::<Vec<_>>();
        self.slots = joined
            .iter()
            .flat_map(|joined| slots(joined).into_iter().map(|slot| (slot, Arc::clone(&joined.uid))))
            .collect();
        self.last.retain(|uid, _| self.joined.contains_key(uid));
    }

    /// Answers what it is asked.
    pub(super) fn request(&mut self, request: Request, sight: Sight<'_>) {
        match request {
            Request::Pods(answer) => {
                let mut pods: Vec<_> =
                    sight.pods.values().map(|state| self.status(state, sight, true)).collect();
                pods.sort_by(|one, other| {
                    (&one.namespace, &one.pod, one.gone).cmp(&(&other.namespace, &other.pod, other.gone))
                });
                if !self.is_heard() {
                    self.last.clear();
                }
                // Whoever has asked may be gone.
                let _asker_is_gone = answer.send(pods);
            }
            Request::Draining(uid, answer) => {
                let _asker_is_gone = answer.send(sight.drains.going_on(uid.as_deref(), sight.now));
            }
            Request::Follow(reader) => self.enter(reader, sight),
        }
    }

    /// Begins with how all the reader's pods are.
    fn enter(&mut self, mut reader: Reader, sight: Sight<'_>) {
        for state in sight.pods.values() {
            if reader.wants(about(state)) {
                reader.tell(&Arc::new(Message::Pod(Box::new(self.status(state, sight, true)))));
            }
        }
        self.hub.enter(reader);
    }

    /// The kernel told of something.
    pub(super) fn event(&mut self, event: &Observed) {
        if !self.is_heard() || self.seen.len() >= MOST_SEEN {
            return;
        }
        let Some(uid) = self.slots.get(&event.slot) else { return };
        if let Some(torn) = Torn::of(event) {
            self.seen.push((Arc::clone(uid), Seen::Torn(Box::new(torn))));
        }
        if let Some(fact) = seen::rst(event) {
            self.seen.push((Arc::clone(uid), Seen::Rst(event.time_ns, fact)));
        }
    }

    /// Tells what was noted since the last call. With `judged`, what was judged just now, also what was seen and is not
    /// judged yet.
    pub(super) fn tell(
        &mut self,
        news: Vec<(Arc<str>, Word, Timed)>,
        judged: Option<&[Judged]>,
        pods: &BTreeMap<Arc<str>, PodState>,
        now: Moment,
    ) {
        let mut all = news;
        if let Some(judged) = judged {
            all.extend(self.unjudged(judged, now));
        }
        all.sort_by_key(|(_, _, timed)| timed.ts);
        for (uid, word, fact) in all {
            let Some(state) = pods.get(&uid) else { continue };
            let pod = &state.followed.pod;
            self.hub.publish(about(state), || Message::Fact {
                namespace: pod.namespace.clone(),
                pod: pod.name.clone(),
                uid: uid.to_string(),
                word,
                fact,
            });
        }
    }

    /// What was seen, but for what is judged.
    fn unjudged(&mut self, judged: &[Judged], now: Moment) -> Vec<(Arc<str>, Word, Timed)> {
        let judged: HashSet<_> = judged.iter().filter_map(|one| Some(one.torn?.id)).collect();
        let word = |(uid, seen)| match seen {
            Seen::Torn(torn) if judged.contains(&torn.id) => None,
            Seen::Torn(torn) => {
                Some((uid, Word::Seen, Timed { ts: now.utc_of(torn.at_ns), fact: seen::end(&torn) }))
            }
            Seen::Rst(at_ns, fact) => Some((uid, Word::Told, Timed { ts: now.utc_of(at_ns), fact })),
        };
        mem::take(&mut self.seen).into_iter().filter_map(word).collect()
    }

    /// A drain is over.
    pub(super) fn over(&mut self, record: &Record, pods: &BTreeMap<Arc<str>, PodState>) {
        let labels = pods.get(&*record.uid).and_then(|state| state.followed.pod.labels.as_ref());
        let about = About { namespace: &record.namespace, pod: &record.pod, labels };
        self.hub.publish(about, || Message::Verdict(Box::new(record.summary())));
        if let Some(last) = self.last.get_mut(&*record.uid) {
            last.intervals = record.intervals;
        }
    }

    /// Tells how the pods are that have changed, and lets readers go that are gone.
    pub(super) fn tick(&mut self, sight: Sight<'_>) {
        self.hub.tick(sight.now.monotonic_ns);
        if !self.is_heard() {
            self.seen.clear();
            self.last.clear();
            return;
        }
        for (uid, state) in sight.pods {
            if !self.hub.wants(about(state)) {
                continue;
            }
            let status = self.status(state, sight, false);
            let last = self.last.entry(Arc::clone(uid)).or_default();
            let same = PodStatus { now: last.status.now.clone(), ..status.clone() } == last.status;
            if !same {
                last.status = status.clone();
                self.hub.publish(about(state), || Message::Pod(Box::new(status)));
            }
        }
    }

    /// How a pod is. Its intervals may be a second old unless they are to be `fresh`.
    fn status(&mut self, state: &PodState, sight: Sight<'_>, fresh: bool) -> PodStatus {
        let uid = &state.followed.uid;
        let now_ns = sight.now.monotonic_ns;
        let last = self.last.entry(Arc::clone(uid)).or_default();
        let is_due = |at: u64| fresh || now_ns.saturating_sub(at) >= INTERVALS_EVERY;
        if last.computed.is_none_or(is_due) {
            last.computed = Some(now_ns);
            match sight.drains.intervals(uid, sight.now) {
                Some(intervals) => last.intervals = intervals,
                // Of a drain that is over they stay.
                None if sight.drains.began(uid).is_none() => last.intervals = Intervals::default(),
                None => {}
            }
        }
        let intervals = last.intervals;
        let joined = self.joined.get(uid);
        let slots: Vec<_> =
            joined.iter().flat_map(|joined| joined.slots.iter().map(|(slot, _)| *slot)).collect();
        let counters = if slots.is_empty() { None } else { (sight.counters)(&slots) };
        let told =
            status(state, joined, sight.joins, sight.drains, (counters.as_ref(), intervals), sight.now);
        let mut told = PodStatus { node: self.node.clone(), lb: sight.board.lb.serving(uid), ..told };
        if counters.is_none() && !slots.is_empty() {
            // Slots go to other owners just now: in a moment there are counts again.
            let PodStatus { connections, rsts_sent, rsts_received, .. } = last.status;
            (told.connections, told.rsts_sent, told.rsts_received) = (connections, rsts_sent, rsts_received);
        }
        told
    }
}

fn about(state: &PodState) -> About<'_> {
    let pod = &state.followed.pod;
    About { namespace: &pod.namespace, pod: &pod.name, labels: pod.labels.as_ref() }
}
