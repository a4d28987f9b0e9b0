//! What a drain was, by its facts alone. Pure: the same facts in any order give the same verdict.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    blame::{Blamed, Lb},
    fact::{End, Fact, Hc, Source, Timed},
    reasons,
    turned_away::TurnedAway,
};

/// Three verdicts; the numbers are the exit codes of the commands that end with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Nothing was cut, and everything was seen.
    Protected = 0,
    /// At least one request was cut that its client did not give up.
    Broken = 2,
    /// No cut is proved, and something that could show one was not seen.
    Inconclusive = 3,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Protected, Self::Broken, Self::Inconclusive];

    /// The word in metrics and records.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Protected => "protected",
            Self::Broken => "broken",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// A verdict with what led to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub outcome: Outcome,
    /// In words, the weightiest first.
    pub reasons: Vec<String>,
    pub counts: Counts,
}

/// Ends of connections and streams during the drain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Cut for certain, without those that their clients gave up; and by cause.
    pub cuts: u64,
    pub by_cause: BTreeMap<String, u64>,
    /// Given up by their clients while the LB was told 200, and was not DOWN.
    pub client_aborts: u64,
    /// Given up by their clients, or cut by the LB: nobody saw whether it was DOWN.
    #[serde(default)]
    pub in_doubt: u64,
    /// Of which it is not certain whether they were cut.
    pub uncertain: u64,
    /// All ends.
    pub ends: u64,
    pub gaps: u64,
}

/// The facts of a drain from its beginning on, picked out once.
#[derive(Debug)]
pub(crate) struct Picture<'a> {
    pub(crate) begun: i64,
    /// Whether anything drained; else all facts are judged.
    pub(crate) is_drain: bool,
    /// Whether hc or a deletion told of the end; else the pod was just gone, and what was before is not the drain's.
    pub(crate) announced: bool,
    pub(crate) ended: Option<i64>,
    /// When the LB was first told 503.
    pub(crate) turned: Option<i64>,
    /// When the grace period ends.
    pub(crate) deadline: Option<i64>,
    /// The last instant from which on nothing was in flight, if it came to that.
    pub(crate) active_zero: Option<i64>,
    /// In order of time; of a connection that was judged again, the last word.
    pub(crate) ends: Vec<Blamed<'a>>,
    pub(crate) gaps: Vec<(i64, Source, i64, &'a str)>,
    /// Requests in flight, in order of time, those from clients and those to services together; `None` while not known.
    pub(crate) active: Vec<(i64, Option<u64>)>,
    /// Those from clients alone: one that waits for a service is in the sum above twice.
    pub(crate) clients: Vec<(i64, Option<u64>)>,
    /// What the LB did.
    pub(super) lb: TurnedAway<'a>,
}

impl<'a> Picture<'a> {
    /// `None` when no fact says that a drain began.
    pub(crate) fn of(facts: &'a [Timed]) -> Option<Self> {
        Some(Self::since(facts, begin(facts)?, true))
    }

    fn since(facts: &'a [Timed], begun: i64, is_drain: bool) -> Self {
        let mut picture = Self {
            begun,
            is_drain,
            announced: facts
                .iter()
                .any(|timed| timed.ts == begun && timed.fact.is_sign() && timed.fact != Fact::PodGone),
            ended: None,
            turned: None,
            deadline: None,
            active_zero: None,
            ends: Vec::new(),
            gaps: Vec::new(),
            active: Vec::new(),
            lb: TurnedAway::of(facts, begun),
            clients: Vec::new(),
        };
        let lb = Lb::of(facts);
        let mut ends: BTreeMap<u64, (i64, &End)> = BTreeMap::new();
        for Timed { ts, fact } in facts {
            match fact {
                Fact::HcState { lb_told: Some(503), .. } if picture.turned.is_none() => {
                    picture.turned = Some(*ts);
                }
                Fact::PodDeleted { grace_seconds } => {
                    picture.deadline = Some(ts.saturating_add(grace_seconds.saturating_mul(1_000_000)));
                }
                Fact::EnvoyActiveCount { downstream, upstream } => {
                    let both = downstream.zip(*upstream).map(|(down, up)| down.saturating_add(up));
                    picture.active.push((*ts, both));
                    picture.clients.push((*ts, *downstream));
                }
                Fact::TcpTeardown(end) if *ts >= begun => match end.connection {
                    Some(connection) => {
                        let known = ends.entry(connection).or_insert((*ts, end));
                        if weight(end) > weight(known.1) {
                            *known = (*ts, end);
                        }
                    }
                    None => picture.ends.push(lb.blame(*ts, end)),
                },
                Fact::Gap { source, length_us, why } if *ts >= begun => {
                    picture.gaps.push((*ts, *source, *length_us, why));
                }
                Fact::Ended if *ts >= begun => picture.ended = picture.ended.max(Some(*ts)),
                _ => {}
            }
        }
        picture.ends.extend(ends.into_values().map(|(ts, end)| lb.blame(ts, end)));
        picture.ends.sort_by_key(|blamed| blamed.ts);
        picture.active_zero = last_zero(&picture.active, begun);
        picture.gaps.extend(missing(facts).map(|why| (begun, Source::Record, 0, why)));
        picture
    }
}

/// What the facts themselves show to be missing among them: of records in files lines may be lost.
fn missing(facts: &[Timed]) -> impl Iterator<Item = &'static str> {
    let mut turns = facts.iter().filter_map(|timed| match timed.fact {
        Fact::HcState { from, .. } if timed.fact.is_sign() => Some(from),
        _ => None,
    });
    let is_late = turns.next().flatten().is_some_and(|from| from != Hc::Open);
    let known: BTreeSet<_> = facts
        .iter()
        .filter_map(|timed| match &timed.fact {
            Fact::TcpTeardown(end) => end.connection,
            _ => None,
        })
        .collect();
    let is_unknown = |timed: &Timed| match timed.fact {
        Fact::TcpRst { connection, in_flight: true, .. } => {
            connection.is_none_or(|connection| !known.contains(&connection))
        }
        _ => false,
    };
    let late = is_late.then_some("the first turn of the health sidecar is none from OPEN");
    let unknown = facts
        .iter()
        .any(is_unknown)
        .then_some("a request was in flight at the RST of a connection whose end is missing");
    late.into_iter().chain(unknown)
}

/// Of two words on one connection: a cut that is proved stands, then what is certain.
fn weight(end: &End) -> (bool, bool) {
    (end.is_cut(), end.sure)
}

/// The first sign of a drain: hc leaves OPEN or tells the LB 503, the deletion is asked for, or the pod is gone.
pub(super) fn begin(facts: &[Timed]) -> Option<i64> {
    facts.iter().filter(|timed| timed.fact.is_sign()).map(|timed| timed.ts).min()
}

/// Since when nothing has been in flight, at the end of what is known.
fn last_zero(active: &[(i64, Option<u64>)], begun: i64) -> Option<i64> {
    let mut zero = None;
    for (ts, active) in active {
        match active {
            Some(0) => zero = zero.or(Some((*ts).max(begun))),
            Some(_) => zero = None,
            // A proxy that ends says nothing more.
            None => {}
        }
    }
    zero
}

/// Judges a drain by its facts, which must be in order; `None` when none of them says that one began.
#[must_use]
pub fn verdict(facts: &[Timed]) -> Option<Verdict> {
    Some(judge(&Picture::of(facts)?))
}

/// Judges facts of which none says that a drain began, which must be in order: they are broken by a cut, and never protected.
#[must_use]
pub fn without_drain(facts: &[Timed]) -> Verdict {
    judge(&Picture::since(facts, facts.first().map_or(0, |first| first.ts), false))
}

fn judge(picture: &Picture<'_>) -> Verdict {
    let mut counts = Counts { gaps: picture.gaps.len() as u64, ..Counts::default() };
    for blamed in &picture.ends {
        let Blamed { end, cause, in_doubt, .. } = *blamed;
        // A file may claim any number.
        let add = |sum: &mut u64| *sum = sum.saturating_add(end.count);
        add(&mut counts.ends);
        match (end.is_cut(), blamed.is_clients()) {
            (true, true) => add(&mut counts.client_aborts),
            (true, false) if in_doubt => add(&mut counts.in_doubt),
            (true, false) => {
                add(&mut counts.cuts);
                add(counts.by_cause.entry(cause.to_owned()).or_default());
            }
            (false, false) if end.may_be_cut() => add(&mut counts.uncertain),
            (false, _) => {}
        }
    }
    // That the LB was not seen matters where an end is in doubt for it: that is counted there.
    let is_seen = picture.gaps.iter().all(|(_, source, ..)| *source == Source::Lb);
    let outcome = if counts.cuts > 0 {
        Outcome::Broken
    } else if counts.uncertain > 0
        || counts.in_doubt > 0
        || !is_seen
        || picture.ended.is_none()
        || !picture.announced
        || !picture.is_drain
    {
        Outcome::Inconclusive
    } else {
        Outcome::Protected
    };
    let reasons = reasons::of(outcome, picture, &counts);
    Verdict { outcome, reasons, counts }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
