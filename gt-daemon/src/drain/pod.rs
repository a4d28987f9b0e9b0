//! One pod: what is noted of it, and when a drain of it begins and is over. Pure; time is an argument.

mod interrupted;
mod unseen;

use std::{collections::BTreeSet, mem, sync::Arc};

use self::interrupted::Interrupted;
use super::{
    fact::{Fact, Source, Timed},
    facts::Facts,
    follow::Rules,
    lb_voice::LbVoices,
    news::{News, Word, is_told_elsewhere},
    record::Record,
    turned_away::predict,
    verdict::begin,
    voice::{Voice, gap},
};
use crate::hc::merge::Change;

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
    /// What made an end of all that was noted while it drained.
    interrupted: Option<Interrupted>,
    pub(super) news: News,
}

impl Pod {
    pub(super) fn new(view: &View, listens: bool, now: i64) -> Self {
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
            interrupted: None,
            news: News::default(),
        };
        pod.news.listen(listens);
        pod.see(view, now);
        pod
    }

    /// What is known from outside by now.
    pub(super) fn see(&mut self, view: &View, now: i64) {
        if self.over.is_some() && !view.gone {
            // Its source names it again: another life.
            let view = View { deletion: None, ..view.clone() };
            let news = mem::take(&mut self.news);
            *self = Self { floor: now, news, ..Self::new(&view, false, now) };
        }
        if let Some((asked, grace_seconds)) = view.deletion
            && view.deletion != self.view.deletion
            && self.deletions.len() < MOST_DELETIONS
        {
            // Its stamp may be a little older than the end of a drain that was called off just before. It is by the API server's
            // clock: where that is ahead, what happens from now on is still the drain's.
            let ts = asked.min(now).max(self.floor.saturating_add(1));
            if self.deletions.insert((ts, grace_seconds)) {
                self.news.tell(Word::Told, &Timed { ts, fact: Fact::PodDeleted { grace_seconds } });
            }
        }
        if view.gone && self.gone.is_none() {
            self.news.tell(Word::Told, &Timed { ts: now, fact: Fact::PodGone });
        }
        self.gone = view.gone.then(|| self.gone.unwrap_or(now));
        self.attributed = self.attributed.or(view.attributed.then_some(now));
        self.view = view.clone();
    }

    /// All changes of hc that are known by now, and whether it has just answered.
    pub(super) fn hc(&mut self, changes: Vec<Change>, answered: bool, now: i64) {
        if changes != self.changes {
            let before: Vec<_> = self.hc_facts().collect();
            self.changes = changes;
            let known = self.hc_facts().collect();
            self.news.hc(&before, known);
        }
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
            self.note(Word::Told, gap(at, Source::Envoy, 0, "they began anew"));
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
            self.note(Word::Told, gap(now, source, 0, why));
        }
    }

    pub(super) fn add(&mut self, ts: i64, fact: Fact) {
        self.note(Word::Told, Timed { ts, fact });
    }

    /// Notes a fact, which may be a better word on one that is known.
    pub(super) fn note(&mut self, word: Word, timed: Timed) {
        if !is_told_elsewhere(&timed.fact) {
            self.news.tell(word, &timed);
        }
        self.facts.add(timed);
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
        let before = self.interrupted.iter().filter_map(|interrupted| interrupted.turn.clone());
        hc.chain(before).chain(deletions).chain(gone).filter(|timed| timed.ts > self.floor).collect()
    }

    fn hc_facts(&self) -> impl DoubleEndedIterator<Item = Timed> {
        let fact = |change: &Change| {
            let fact = Fact::hc_change(change.from, change.to);
            // One that a poll found out may have happened at any time since the poll before.
            let since =
                change.not_before_us.filter(|_| change.found && fact.is_sign()).unwrap_or(change.at_us);
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
        let ended = record.iter().flat_map(|record| &record.facts).find(|timed| timed.fact == Fact::Ended);
        if let Some(ended) = ended {
            self.news.tell(Word::Told, ended);
        }
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
        (self.ended, self.counted, self.interrupted) = (None, None, None);
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
}
