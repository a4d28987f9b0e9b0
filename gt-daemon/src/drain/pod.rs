//! One pod: what is noted of it, and when a drain of it begins and is over. Pure; time is an argument.

use std::{collections::BTreeSet, sync::Arc};

use gt_common::connection::HcState;

use super::{
    fact::{Fact, Hc, Source, Timed},
    facts::Facts,
    follow::Rules,
    lb_voice::LbVoices,
    record::Record,
    turned_away::predict,
    verdict::begin,
    voice::{Voice, gap},
};
use crate::hc::{merge::Change, states::States};

/// How long after the end late words are waited for, microseconds: longer than the join waits.
pub(super) const LATE: i64 = 6_000_000;

/// Before a drain has begun facts are kept this long, since its beginning may be told late, and so many.
const KEPT: i64 = 30_000_000;
const KEPT_MOST: usize = 512;

/// A beginning that is told with this delay was seen whole: a deletion's stamp is in whole seconds.
const SLACK: i64 = 1_000_000;

/// Losses of one cause within this time are one.
const ONE_LOSS: i64 = 1_000_000;

/// Deletions of one pod that are remembered: each further request shortens the time it has.
const MOST_DELETIONS: usize = 16;

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

/// What is known of a pod's connections of users.
#[derive(Clone, Copy, Debug)]
struct Counted {
    /// The first and the last look, UTC microseconds.
    first: i64,
    last: i64,
    /// When one was last there.
    connected: Option<i64>,
    /// Established, and closing.
    now: (u64, u64),
}

impl Counted {
    /// Whether a look after this instant has found none.
    fn is_empty_since(&self, instant: i64) -> bool {
        self.last >= instant && self.now == (0, 0)
    }
}

#[derive(Debug)]
pub(super) struct Pod {
    pub(super) view: View,
    /// Since when it is watched, and its sockets are known.
    since: i64,
    attributed: Option<i64>,
    facts: Facts,
    changes: Vec<Change>,
    deletions: BTreeSet<(i64, i64)>,
    gone: Option<i64>,
    hc_voice: Voice,
    envoy_voice: Voice,
    lb_voices: LbVoices,
    /// What was noted last, so that only changes are.
    active: Option<(Option<u64>, Option<u64>)>,
    counted: Option<Counted>,
    lost: Option<(i64, Source, String)>,
    /// Whose counts the proxy's are.
    epoch: Option<u64>,
    /// What is not later belongs to a drain before.
    floor: i64,
    ended: Option<i64>,
    /// When its last drain began: after that there is none.
    over: Option<i64>,
}

impl Pod {
    pub(super) fn new(view: &View, now: i64) -> Self {
        let mut pod = Self {
            view: View { deletion: None, gone: false, attributed: false, ..view.clone() },
            since: now,
            attributed: None,
            facts: Facts::default(),
            changes: Vec::new(),
            deletions: BTreeSet::new(),
            gone: None,
            hc_voice: Voice::default(),
            envoy_voice: Voice::default(),
            lb_voices: LbVoices::default(),
            active: None,
            counted: None,
            lost: None,
            epoch: None,
            floor: i64::MIN,
            ended: None,
            over: None,
        };
        pod.see(view, now);
        pod
    }

    /// What is known from outside by now.
    pub(super) fn see(&mut self, view: &View, now: i64) {
        if self.over.is_some() && !view.gone {
            // Its source names it again: another life.
            *self = Self { floor: now, ..Self::new(&View { deletion: None, ..view.clone() }, now) };
        }
        if let Some((asked, grace_seconds)) = view.deletion
            && view.deletion != self.view.deletion
            && self.deletions.len() < MOST_DELETIONS
        {
            // Its stamp may be a little older than the end of a drain that was called off just before.
            self.deletions.insert((asked.max(self.floor.saturating_add(1)), grace_seconds));
        }
        self.gone = view.gone.then(|| self.gone.unwrap_or(now));
        self.attributed = self.attributed.or(view.attributed.then_some(now));
        self.view = view.clone();
    }

    /// All changes of hc that are known by now, and whether it has just answered.
    pub(super) fn hc(&mut self, changes: Vec<Change>, answered: bool, now: i64) {
        self.changes = changes;
        if answered {
            self.hc_voice.answers(now, self.since);
        }
    }

    pub(super) fn envoy(&mut self, active: (Option<u64>, Option<u64>), drains: Option<bool>, at: i64) {
        self.envoy_voice.answers(at, self.since);
        if self.active.replace(active) != Some(active) {
            let (downstream, upstream) = active;
            self.add(at, Fact::EnvoyActiveCount { downstream, upstream });
        }
        if drains == Some(true) && !self.facts.any(&Fact::EnvoyDrainListeners) {
            self.add(at, Fact::EnvoyDrainListeners);
        }
    }

    /// The proxy's counts are those of this epoch. What one before counted last was not seen.
    pub(super) fn counts(&mut self, epoch: u64, at: i64) {
        if self.epoch.replace(epoch).is_some_and(|before| before != epoch) {
            self.facts.add(gap(at, Source::Envoy, 0, "they began anew"));
        }
    }

    pub(super) fn lb_answers(&mut self, lb: &Arc<str>, lists: bool, at: i64) {
        self.lb_voices.answers(lb, lists, at, self.since);
    }

    /// Connections of users now, established and closing.
    pub(super) fn connections(&mut self, active: u64, closing: u64, now: i64) {
        let is_new = self.counted.is_none_or(|counted| counted.now != (active, closing));
        if is_new {
            self.add(now, Fact::Connections { active, closing });
        }
        let before = self.counted;
        self.counted = Some(Counted {
            first: before.map_or(now, |counted| counted.first),
            last: now,
            connected: (active + closing > 0)
                .then_some(now)
                .or_else(|| before.and_then(|counted| counted.connected)),
            now: (active, closing),
        });
    }

    pub(super) fn lost(&mut self, source: Source, why: &str, now: i64) {
        let begun = self.begun();
        let is_told = |(at, of, told): &(i64, Source, String)| {
            (*of, told.as_str()) == (source, why)
                && now.saturating_sub(*at) < ONE_LOSS
                // One before the drain says nothing of it.
                && begun.is_some_and(|begun| *at >= begun)
        };
        if !self.lost.as_ref().is_some_and(is_told) {
            self.lost = Some((now, source, why.to_owned()));
            self.facts.add(gap(now, source, 0, why));
        }
    }

    pub(super) fn add(&mut self, ts: i64, fact: Fact) {
        self.facts.add(Timed { ts, fact });
    }

    /// When the drain that goes on began.
    pub(super) fn begun(&self) -> Option<i64> {
        if self.over.is_some() { None } else { begin(&self.signs()) }
    }

    /// When the drain that goes on, or the last one of a pod that is gone, began.
    pub(super) fn shown(&self) -> Option<i64> {
        self.over.or_else(|| self.begun())
    }

    /// What tells of beginnings and of their being called off: they are few, and none is ever left out.
    fn signs(&self) -> Vec<Timed> {
        let hc = self.hc_facts();
        let deletions = self.deletions.iter().map(|(ts, grace_seconds)| Timed {
            ts: *ts,
            fact: Fact::PodDeleted { grace_seconds: *grace_seconds },
        });
        let gone = self.gone.map(|ts| Timed { ts, fact: Fact::PodGone });
        hc.chain(deletions).chain(gone).filter(|timed| timed.ts > self.floor).collect()
    }

    fn hc_facts(&self) -> impl DoubleEndedIterator<Item = Timed> {
        let fact = |change: &Change| {
            let fact = Fact::hc_change(change.from, change.to);
            // One that a poll found out may have happened at any time since the poll before.
            let since = change.not_before_us.filter(|_| fact.is_sign()).unwrap_or(change.at_us);
            Timed { ts: since.max(self.floor.saturating_add(1)).min(change.at_us), fact }
        };
        self.changes.iter().map(fact).filter(|timed| timed.ts > self.floor)
    }

    /// Lets time pass; the record of a drain that is over.
    pub(super) fn tick(&mut self, now: i64, rules: &Rules) -> Option<Record> {
        let Some(begun) = self.begun() else {
            self.facts.trim(now.saturating_sub(KEPT).max(self.floor), KEPT_MOST);
            self.ended = None;
            return None;
        };
        let empty = self.is_empty().then(|| self.ended.unwrap_or(now));
        self.ended = self.called_off(begun).or(empty);
        let is_over = self.ended.is_some_and(|ended| now.saturating_sub(ended) > LATE);
        let is_given_up = self.gone.is_some_and(|gone| now.saturating_sub(gone) > rules.patience);
        if !is_over && !is_given_up {
            return None;
        }
        let record = self.record(now, rules);
        // What a log tells of before gt came is no drain that gt saw.
        let is_past = self.ended.is_some_and(|ended| ended < self.since);
        self.begin_anew(begun);
        record.filter(|_| !is_past)
    }

    fn begin_anew(&mut self, begun: i64) {
        self.over = self.gone.map(|_| begun);
        self.floor = self.ended.unwrap_or(begun).max(begun);
        let next = begin(&self.signs()).unwrap_or(self.floor.saturating_add(1));
        self.facts = self.facts.since(next);
        self.deletions.retain(|(asked, _)| *asked > self.floor);
        (self.ended, self.counted) = (None, None);
    }

    /// Whether no connection of a user is left that could be seen, and none can come.
    fn is_empty(&self) -> bool {
        let Some(gone) = self.gone else { return false };
        !self.view.attributed || self.counted.is_some_and(|counted| counted.is_empty_since(gone))
    }

    /// When hc went back to OPEN, if nothing else says that the pod ends.
    fn called_off(&self, begun: i64) -> Option<i64> {
        let is_ending = self.gone.is_some() || self.deletions.iter().any(|(asked, _)| *asked > self.floor);
        let back = self.hc_facts().next_back().filter(|last| last.ts > begun && last.fact.is_open())?;
        (!is_ending).then_some(back.ts)
    }

    /// What is known of the drain by now; `None` when none goes on.
    pub(super) fn record(&self, now: i64, rules: &Rules) -> Option<Record> {
        let begun = self.begun()?;
        let mut further = self.signs();
        further.extend(self.gaps(begun, now, rules));
        further.extend(self.seen_end(begun, now).map(|ts| Timed { ts, fact: Fact::Ended }));
        let mut facts = self.facts.list(begun, further, now);
        // With the first sign after it was called off another drain begins.
        if let Some(back) = self.called_off(begun) {
            let is_next = |timed: &&Timed| timed.ts > back && timed.fact.is_sign();
            let next = facts.iter().find(is_next).map_or(i64::MAX, |timed| timed.ts);
            facts.retain(|timed| timed.ts < next);
        }
        if let Some(prediction) = rules.prediction {
            predict(&mut facts, begun, now, prediction);
        }
        if self.envoy_voice.is_silent_around(begun) {
            // What it told long before is not what was in flight then.
            let is_old =
                |timed: &Timed| timed.ts <= begun && matches!(timed.fact, Fact::EnvoyActiveCount { .. });
            facts.retain(|timed| !is_old(timed));
        }
        let View { namespace, pod, uid, .. } = &self.view;
        Record::of(namespace, pod, uid, facts, self.facts.left_out())
    }

    /// When it ended, if that was seen and all late words are here.
    fn seen_end(&self, begun: i64, now: i64) -> Option<i64> {
        let is_seen = self.called_off(begun).is_some()
            || self.counted.zip(self.gone).is_some_and(|(counted, gone)| counted.is_empty_since(gone));
        self.ended.filter(|ended| is_seen && now.saturating_sub(*ended) > LATE)
    }

    /// What was not seen of a drain.
    fn gaps(&self, begun: i64, now: i64, rules: &Rules) -> Vec<Timed> {
        let mut gaps = Vec::new();
        let mut late = |from: i64, to: i64, why| {
            if to > from.saturating_add(SLACK) {
                gaps.push(gap(to, Source::Pods, to.saturating_sub(from), why));
            }
        };
        late(begun, self.since, "gt did not watch it yet");
        match self.attributed {
            Some(attributed) => {
                late(begun.max(self.since), attributed, "nothing in the kernel led to its sockets yet");
            }
            None => gaps.push(gap(now, Source::Pods, 0, "nothing in the kernel led to its sockets")),
        }
        gaps.extend(
            self.changes
                .iter()
                .filter(|change| change.at_us == begun)
                .find_map(unseen_turn)
                .map(|why| gap(begun, Source::Hc, 0, why)),
        );
        let until = self.users_until(begun, now);
        if self.view.has_hc && !self.has_closed() {
            gaps.extend(self.hc_voice.gaps(Source::Hc, begun, until, now));
        }
        if self.view.has_envoy {
            gaps.extend(self.envoy_voice.gaps(Source::Envoy, begun, until, now));
        }
        gaps.extend(self.lb_voices.gaps(&rules.lbs, begun, until, now));
        gaps
    }

    /// Until when users may have been connected: before connections were counted nobody knows.
    fn users_until(&self, begun: i64, now: i64) -> i64 {
        let Some(counted) = self.counted else { return now };
        counted.connected.unwrap_or(begun).max(counted.first).max(begun)
    }

    /// Whether hc has said its last word.
    fn has_closed(&self) -> bool {
        let is_closed = |timed: Timed| matches!(timed.fact, Fact::HcState { to: Some(Hc::Closed), .. });
        self.hc_facts().any(is_closed)
    }
}

/// Why hc's first sign of a drain does not tell when the drain began: hc had left OPEN before, and what was cut since then is
/// not in the drain. `None` when it came from OPEN, or may have.
fn unseen_turn(change: &Change) -> Option<&'static str> {
    let is_known = change.from != States::ANY;
    if is_known && !change.from.meets(States::only(HcState::Open)) {
        return Some("its turn from OPEN was not told");
    }
    // Before DRAINING there is only OPEN; anything later has something between.
    match (is_known, change.found) {
        (true, _) => None,
        (false, true) if change.to.shown_up() == Some(false) => {
            Some("it told 503 already when it was first asked")
        }
        (false, true) => Some("it was past OPEN already when it was first asked"),
        (false, false) => {
            (change.to != States::only(HcState::Draining)).then_some("its turn from OPEN was not told")
        }
    }
}
