//! One pod: its teardowns wait until hc and the proxy have told what they know, then each is judged. Pure and
//! synchronous; time is an argument.

mod certainty;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use gt_common::connection::{HcState, Phase};

use self::certainty::{Told, shows_nothing};
use super::{
    cause::{Cause, cause},
    counted::{CutLabels, ResetLabels},
    judged::{Judged, Past, hc_label},
    proxy::{Proxy, Said, Settled},
    torn::{Direction, Ending, Id, Proof, Torn},
};
use crate::{
    clock::Moment,
    envoy::sample::Sample,
    hc::{observation::Observation, record::Record, states::States},
    lb::{
        follow::Said as LbSaid,
        history::{Held as LbHeld, History},
    },
    pods::owners::Name,
};

/// How long a teardown waits for hc and for the proxy, nanoseconds.
const HC_PATIENCE_NS: u64 = 2_000_000_000;
const PROXY_PATIENCE_NS: u64 = 4_000_000_000;

/// An abort that no RST follows by then was none: the kernel gave up. Both come from one function of the kernel.
const RST_PATIENCE_NS: u64 = 500_000_000;

/// What hc told this long before a teardown is taken to hold at it, when it tells nothing after it.
const HC_AGE_NS: u64 = 1_000_000_000;

/// How old the LB's last word may be to say anything.
const LB_AGE_US: i64 = 600_000_000;

/// Teardowns that wait, and judged ones that are remembered, at most.
const MOST: usize = 8192;

/// Answers of the proxy that are kept for the case that it dies.
const MOST_GAUGES: usize = 64;

/// How old its last answer may be to say anything about its death.
const GAUGE_AGE_NS: u64 = 10_000_000_000;

/// An answer of the proxy.
#[derive(Clone, Copy, Debug)]
struct Gauge {
    at_ns: u64,
    /// Requests in flight.
    active: u64,
    /// When its counters had last been read by then.
    counted_ns: u64,
    /// Whether it held all connections of users that the kernel knew: none was another program's.
    holds_all: bool,
}

/// A teardown that waits.
#[derive(Clone, Copy, Debug)]
struct Held {
    torn: Torn,
    said: Option<Said>,
}

/// What the sources told of one pod.
#[derive(Debug)]
pub struct Pod {
    uid: Arc<str>,
    /// The pod as a whole.
    name: Name,
    /// Jiffies in a second.
    hz: u32,
    pub(super) has_hc: bool,
    pub(super) has_envoy: bool,
    pub(super) ends: bool,
    record: Record,
    hc_now: States,
    /// Until when hc is known, `CLOCK_MONOTONIC` nanoseconds.
    hc_known_ns: u64,
    /// When hc was last seen to change: what the proxy counts before and after is told apart by a look just then.
    hc_changed_ns: u64,
    /// What the LB told by now.
    lb: History,
    proxy: Proxy,
    /// When the proxy last answered, and last did not.
    answered_ns: u64,
    failed_ns: u64,
    /// Requests in flight, and when that was told.
    gauges: VecDeque<Gauge>,
    /// When its counters were last read.
    counted_ns: u64,
    /// Whether it held all connections of users at the last look.
    held_all: bool,
    held: VecDeque<Held>,
    past: HashMap<Id, Past>,
    order: VecDeque<Id>,
    /// Cuts the proxy counted and no event showed, that the kernel's counts may still tell of; and the other way round.
    unseen: u64,
    lost: u64,
}

impl Pod {
    pub(super) fn new(uid: Arc<str>, name: Name, hz: u32) -> Self {
        Self {
            uid,
            name,
            hz,
            has_hc: false,
            has_envoy: false,
            ends: false,
            record: Record::default(),
            hc_now: States::ANY,
            hc_known_ns: 0,
            hc_changed_ns: 0,
            lb: History::default(),
            proxy: Proxy::default(),
            answered_ns: 0,
            failed_ns: 0,
            gauges: VecDeque::new(),
            counted_ns: 0,
            held_all: false,
            held: VecDeque::new(),
            past: HashMap::new(),
            order: VecDeque::new(),
            unseen: 0,
            lost: 0,
        }
    }

    /// The LB said something.
    pub(super) fn lb(&mut self, said: &[LbSaid]) {
        said.iter().for_each(|said| self.lb.said(said));
        self.lb.trim();
    }

    pub(super) fn lb_is_over(&mut self) {
        self.lb = History::default();
    }

    /// What the LB did, by a word that is not old: one that was brought may be the only one ever.
    fn lb_at(&self, at_ns: u64, now: Moment) -> LbHeld {
        let at = now.utc_of(at_ns);
        let is_fresh = self.lb.last().is_some_and(|last| at.saturating_sub(last) < LB_AGE_US);
        if is_fresh { self.lb.at(at) } else { LbHeld::Untold }
    }

    /// UTC was set: what was told by its stamps is forgotten. The proxy's word has none.
    pub(super) fn clock_was_set(&mut self) {
        (self.record, self.hc_now, self.lb) = (Record::default(), States::ANY, History::default());
    }

    /// What hc told, in order of time.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Takes a teardown in; whether asking hc and the proxy at once would help.
    pub(super) fn torn(&mut self, torn: Torn) -> bool {
        let waits = Proof::of(torn.known.evidence).is_some() || torn.ending.is_none() || torn.known.exiting;
        if self.has_envoy {
            self.proxy.torn(&torn, waits);
        }
        self.held.push_back(Held { torn, said: None });
        // An idle connection of HTTP/1 that ends is ordinary, unless the pod drains; of others only the proxy knows.
        let ordinary = !waits && torn.known.phase == Phase::Idle;
        let drains = self.ends || !self.hc_now.meets(States::only(HcState::Open));
        (self.has_hc || self.has_envoy) && (drains || !ordinary)
    }

    /// An RST on a connection that had begun to end. `held_against`: the kernel holds it against a cut.
    pub(super) fn reset(&mut self, id: Id, direction: Direction, held_against: bool) -> Reset {
        let held =
            self.held.iter_mut().find(|held| held.torn.id == id).map(|held| (&mut held.torn, Reset::First));
        let past = self.past.get_mut(&id).map(|past| {
            let of_cut = |proof| Reset::OfCut(ResetLabels { direction, hc: past.hc, proof });
            (&mut past.torn, past.proof.map_or(Reset::OfPast, of_cut))
        });
        let Some((torn, judged)) = held.or(past) else { return Reset::Unknown };
        if torn.ending.is_none() && direction == Direction::Sent {
            torn.ending = Some(Ending::RstSent);
        }
        if torn.rst.is_some() || !held_against && torn.ending == Some(Ending::FinSent) {
            return Reset::Nothing;
        }
        torn.rst = Some(direction);
        judged
    }

    pub(super) fn hc(&mut self, observation: &Observation) -> bool {
        self.hc_known_ns = self.hc_known_ns.max(observation.known_ns().unwrap_or(0));
        self.record.push(observation.clone());
        let before = std::mem::replace(&mut self.hc_now, self.record.states_at(observation.seen.utc_us));
        let changed = self.hc_now != before;
        if changed {
            self.hc_changed_ns = observation.seen.monotonic_ns;
        }
        changed
    }

    pub(super) fn answered(&mut self, sample: &Sample, at: Moment) {
        self.answered_ns = self.answered_ns.max(at.monotonic_ns);
        if let Some(counters) = sample.counters {
            self.counted_ns = counters.begun.monotonic_ns;
        }
        if let Some(active) = sample.gauges.values.downstream_rq_active {
            self.gauges.push_back(Gauge {
                at_ns: sample.gauges.begun.monotonic_ns,
                active,
                counted_ns: self.counted_ns,
                holds_all: false,
            });
            if self.gauges.len() > MOST_GAUGES {
                self.gauges.pop_front();
            }
        }
        self.proxy.look(sample);
    }

    /// How many connections of users were established and closing when the proxy answered; `None` while not known. That the
    /// proxy held as many may be chance once, not at two looks in a row.
    pub(super) fn connected(&mut self, sample: &Sample, users: Option<(u64, u64)>) {
        let held = sample.gauges.values.downstream_cx_active;
        let fits = held.is_some() && users == held.map(|held| (held, 0));
        if let Some(gauge) = self.gauges.back_mut() {
            gauge.holds_all = fits && self.held_all;
        }
        self.held_all = fits;
    }

    pub(super) fn doubt(&mut self, now_ns: u64) {
        self.proxy.doubt(now_ns);
    }

    pub(super) fn failed(&mut self, at: Moment) {
        self.failed_ns = self.failed_ns.max(at.monotonic_ns);
    }

    /// Whether hc and the proxy should be asked again.
    pub(super) fn wants(&self, now_ns: u64) -> bool {
        let asks = self.proxy.wants(now_ns) || self.answered_ns < self.hc_changed_ns;
        self.has_envoy && self.answered_ns >= self.failed_ns && asks
            || self.has_hc && self.held.iter().any(|held| self.waits_for_hc(&held.torn, now_ns))
    }

    /// All events of the kernel up to `until_ns` are here: judges what can be judged.
    pub(super) fn advance(&mut self, now: Moment, until_ns: u64) -> Vec<Judged> {
        let mut judged = Vec::new();
        let mut told = self.proxy.decide(until_ns);
        if self.failed_ns > self.answered_ns {
            told.extend(self.proxy.last_words());
        }
        for settled in told {
            self.settled(settled, now, &mut judged);
        }
        let now_ns = now.monotonic_ns;
        let mut waiting = VecDeque::new();
        let told = self.dead_proxys_share(now_ns);
        while let Some(mut held) = self.held.pop_front() {
            let age = now_ns.saturating_sub(held.torn.at_ns);
            if held.torn.ending.is_none() && age > RST_PATIENCE_NS {
                held.torn.ending = Some(Ending::Timeout);
            }
            let waits = held.torn.ending.is_none()
                || self.waits_for_proxy(&held, now_ns)
                || self.has_hc && self.waits_for_hc(&held.torn, now_ns);
            if waits && waiting.len() < MOST {
                waiting.push_back(held);
            } else {
                judged.push(self.judge(held.torn, held.said, now, &told));
            }
        }
        self.held = waiting;
        self.proxy.give_up(now_ns.saturating_sub(PROXY_PATIENCE_NS));
        judged
    }

    /// The proxy's word on some.
    fn settled(&mut self, settled: Settled, now: Moment, judged: &mut Vec<Judged>) {
        for (id, said) in settled.said {
            if let Some(held) = self.held.iter_mut().find(|held| held.torn.id == id) {
                held.said = Some(said);
            } else if let Some(past) = self.past.get(&id).copied().filter(|past| past.proof.is_none())
                && (said == Said::Yes || said == Said::No && !past.sure)
            {
                // Late, or of a connection of which the socket showed nothing.
                let later = self.judge(past.torn, Some(said), now, &Told::default());
                judged.push(Judged { again: true, ..later });
            }
        }
        let (from_ns, until_ns) = settled.window_ns;
        let states = self.states_between(from_ns, until_ns, now);
        let (hc, lb) = (hc_label(self.has_hc, states), self.lb_at(until_ns, now));
        let mut only_told = |ending, cause, count| {
            let cut = CutLabels { ending, cause, hc, proof: Proof::L7 };
            judged.push(Judged::without_event(&self.uid, &self.name, until_ns, cut, count));
        };
        if settled.streams > 0 {
            only_told(Ending::StreamReset, cause(Ending::StreamReset, false, states, lb), settled.streams);
        }
        if settled.own > 0 {
            only_told(Ending::StreamReset, Cause::Proxy, settled.own);
        }
        let unseen = settled.unseen.saturating_sub(self.lost);
        self.lost = self.lost.saturating_sub(settled.unseen);
        if unseen > 0 {
            only_told(Ending::Unseen, cause(Ending::Unseen, false, states, lb), unseen);
            self.unseen += unseen;
        }
    }

    /// The kernel counted cuts whose events never came: how many of them the proxy has not told of.
    pub(super) fn lost(&mut self, count: u64) -> u64 {
        let known = self.unseen.min(count);
        self.unseen -= known;
        if self.has_envoy {
            self.lost += count - known;
        }
        count - known
    }

    fn judge(&mut self, torn: Torn, said: Option<Said>, now: Moment, told: &Told) -> Judged {
        let ending = torn.ending.unwrap_or(Ending::Timeout);
        let (states, proof) = (self.states_at(torn.at_ns, now), self.proof(&torn, said, told));
        let hc = hc_label(self.has_hc, states);
        // An hc that has fallen silent may tell the LB nothing too, which is no 200.
        let is_silent = self.hc_known_ns < torn.at_ns && states.shown_up() == Some(true);
        let states = if is_silent { States::ANY } else { states };
        let cause = cause(ending, torn.known.exiting, states, self.lb_at(torn.at_ns, now));
        let sure = match proof {
            Some(proof) => proof != Proof::Possible,
            None => said == Some(Said::No) || shows_nothing(&torn) || self.nothing_since(&torn),
        };
        self.remember(Past { torn, proof, sure, hc });
        Judged {
            uid: Arc::clone(&self.uid),
            name: self.name.clone(),
            at_ns: torn.at_ns,
            ending,
            proof,
            sure,
            again: false,
            cause,
            hc,
            count: 1,
            rst: torn.rst,
            last_told: told.active.filter(|_| torn.known.exiting),
            torn: Some(torn),
        }
    }

    fn remember(&mut self, past: Past) {
        // Without a proxy nobody comes back to what was no cut.
        if past.proof.is_none() && !self.has_envoy {
            return;
        }
        if self.past.insert(past.torn.id, past).is_none() {
            self.order.push_back(past.torn.id);
        }
        while self.order.len() > MOST {
            if let Some(oldest) = self.order.pop_front() {
                self.past.remove(&oldest);
            }
        }
    }

    /// Whether the proxy may still tell.
    fn waits_for_proxy(&self, held: &Held, now_ns: u64) -> bool {
        let torn = &held.torn;
        let needs = Proof::of(torn.known.evidence).is_some() || torn.known.exiting;
        let silent = self.failed_ns > torn.at_ns && self.failed_ns >= self.answered_ns;
        let age = now_ns.saturating_sub(torn.at_ns);
        self.has_envoy
            && held.said.is_none()
            && needs
            && self.proxy.tells()
            && !silent
            && age < PROXY_PATIENCE_NS
    }

    fn waits_for_hc(&self, torn: &Torn, now_ns: u64) -> bool {
        self.hc_known_ns < torn.at_ns && now_ns.saturating_sub(torn.at_ns) < HC_PATIENCE_NS
    }

    fn states_at(&self, at_ns: u64, now: Moment) -> States {
        if !self.has_hc || self.hc_known_ns.saturating_add(HC_AGE_NS) < at_ns {
            return States::ANY;
        }
        self.record.states_at(now.utc_of(at_ns))
    }

    fn states_between(&self, from_ns: u64, until_ns: u64, now: Moment) -> States {
        let from = self.states_at(from_ns, now);
        let changes = self.record.changes();
        let (from_us, until_us) = (now.utc_of(from_ns), now.utc_of(until_ns));
        let between = changes.iter().filter(|change| change.at_us > from_us && change.at_us <= until_us);
        let all = between.fold(from, |states, change| states.or(change.to));
        if self.hc_known_ns.saturating_add(HC_AGE_NS) < until_ns { States::ANY } else { all }
    }
}

/// What an RST is to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reset {
    /// Nothing is known of the connection.
    Unknown,
    /// There was one before; or it is in doubt (see `gt-ebpf/src/rst_received.rs`), which happens after the pod's own FIN
    /// only.
    Nothing,
    /// The first one, of a connection that is not judged yet.
    First,
    /// The first one of a connection that was judged to be no cut.
    OfPast,
    /// The first one of a cut that has been counted without it.
    OfCut(ResetLabels),
}

impl Reset {
    /// Whether it is the first of its connection.
    pub(super) fn is_first(self) -> bool {
        matches!(self, Self::First | Self::OfPast | Self::OfCut(_))
    }
}

#[cfg(test)]
#[path = "pod_tests.rs"]
mod tests;
