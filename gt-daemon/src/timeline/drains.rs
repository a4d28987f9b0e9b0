//! Which drains the artifacts of a run tell of, and which of them are whose.

use super::{
    evidence::{Evidence, From},
    hc_log::Life,
};
use crate::{drain::fact::Fact, hc::states::States};

/// From the deletion of a pod to its sidecar's first transition, and what clocks differ by, microseconds.
pub(super) const DELETION: i64 = 10_000_000;
const SLACK: i64 = 1_000_000;

/// One drain, or all of a run in which nothing drained.
#[derive(Clone, Debug)]
pub struct Drain<'a> {
    pub life: Option<&'a Life>,
    /// The pod's name, where the run's log tells.
    pub pod: Option<&'a str>,
    /// `None` where nothing drained.
    pub begun: Option<i64>,
    /// Where the next one begins.
    pub until: i64,
    /// Whether there is no other pod that files without a pod's name may be about.
    pub alone: bool,
}

impl<'a> Drain<'a> {
    /// The drains of a run in order of time; with none of them, the run itself.
    #[must_use]
    pub fn all(evidence: &'a Evidence) -> Vec<Self> {
        let lives: Vec<&Life> = evidence.lives.iter().flat_map(|from| &from.told).collect();
        let mut begun: Vec<(i64, &Life)> =
            lives.iter().filter_map(|life| Some((begin(life)?, *life))).collect();
        begun.sort_by_key(|(begun, life)| (*begun, life.first));
        let alone = lives.len() <= 1;
        if begun.is_empty() {
            let life = lives.first().copied().filter(|_| alone);
            let deleted = &evidence.done.deleted;
            let pod = deleted.first().filter(|_| deleted.len() == 1).map(|(_, name)| name.as_str());
            return vec![Drain { life, pod, begun: None, until: i64::MAX, alone: true }];
        }
        let until = |index: usize| begun.get(index + 1).map_or(i64::MAX, |(next, _)| *next);
        let drains = begun.iter().enumerate().map(|(index, (begun, life))| Drain {
            life: Some(*life),
            pod: deleted(evidence, *begun, alone),
            begun: Some(*begun),
            until: until(index),
            alone,
        });
        drains.collect()
    }

    /// Those of some files that are this pod's: named after it, or else all, where there is no other pod.
    pub fn files<'b, T>(&self, all: &'b [From<T>]) -> Vec<&'b From<T>> {
        let named = |from: &&From<T>| self.pod.is_some_and(|pod| is_named(&from.file, pod));
        let own: Vec<_> = all.iter().filter(named).collect();
        match own.is_empty() {
            false => own,
            true if self.alone => all.iter().collect(),
            true => Vec::new(),
        }
    }

    /// Whether an instant is in it. What was just before is told too.
    #[must_use]
    pub fn has(&self, ts: i64) -> bool {
        ts < self.until && self.begun.is_none_or(|begun| ts >= begun.saturating_sub(DELETION))
    }

    /// In which states hc may have been at an instant.
    #[must_use]
    pub fn hc_at(&self, ts: i64) -> States {
        let Some(life) = self.life else { return States::ANY };
        let told = |code: u16| if code < 400 { States::UP } else { States::DOWN };
        if let Some((_, first, _)) = life.changes.first() {
            let last = life.changes.iter().rev().find(|(at, ..)| *at <= ts);
            return last.map_or(*first, |(_, _, to)| *to);
        }
        let last = life.answers.iter().rev().find(|(at, _)| *at <= ts).or(life.answers.first());
        last.map_or(States::ANY, |(_, code)| told(*code))
    }
}

/// Whether a file has a pod's name in its own, as a word: `igw-10.pcap` is not `igw-1`'s.
#[must_use]
pub fn is_named(file: &str, pod: &str) -> bool {
    let is_end = |letter: Option<char>| letter.is_none_or(|letter| !letter.is_alphanumeric());
    !pod.is_empty()
        && file.match_indices(pod).any(|(at, _)| {
            let (before, rest) = file.split_at(at);
            is_end(before.chars().next_back()) && is_end(rest.chars().nth(pod.chars().count()))
        })
}

/// What hc's log tells of a pod, as facts: its transitions, or without any the codes it answered.
pub(super) fn hc_facts(life: &Life) -> Vec<(i64, Fact)> {
    if !life.changes.is_empty() {
        return life.changes.iter().map(|(ts, from, to)| (*ts, Fact::hc_change(*from, *to))).collect();
    }
    let states = |code: u16| if code < 400 { States::UP } else { States::DOWN };
    let mut before = States::ANY;
    let mut facts = Vec::new();
    for (ts, code) in &life.answers {
        let after = states(*code);
        facts.push((*ts, Fact::hc_change(before, after)));
        before = after;
    }
    facts
}

/// The first sign that a pod drains.
fn begin(life: &Life) -> Option<i64> {
    hc_facts(life).into_iter().filter(|(_, fact)| fact.is_sign()).map(|(ts, _)| ts).min()
}

/// The pod that was deleted when a drain began.
fn deleted(evidence: &Evidence, begun: i64, alone: bool) -> Option<&str> {
    let all = &evidence.done.deleted;
    let near = all.iter().filter(|(ts, _)| *ts <= begun + SLACK && begun - *ts <= DELETION);
    let nearest = near.min_by_key(|(ts, _)| (begun - ts).abs());
    let only = all.first().filter(|_| alone && all.len() == 1);
    nearest.or(only).map(|(_, name)| name.as_str())
}

#[cfg(test)]
mod tests {
    use gt_common::connection::HcState;

    use super::*;

    fn life(changes: &[(i64, HcState, HcState)]) -> Life {
        let states = |state: HcState| States::only(state);
        Life {
            changes: changes.iter().map(|(ts, from, to)| (*ts, states(*from), states(*to))).collect(),
            ..Life::default()
        }
    }

    fn evidence(lives: Vec<Life>) -> Evidence {
        let lives = vec![From { file: "hc.log".to_owned(), told: lives, whole: true }];
        Evidence { lives, ..Evidence::default() }
    }

    /// Exercises two pods of which each drains, so that each has its own time, name and files.
    #[test]
    fn two_drains() {
        let (open, closing) = (HcState::Open, HcState::Closing);
        let mut told =
            evidence(vec![life(&[(90_000_000, open, closing)]), life(&[(30_000_000, open, closing)])]);
        told.done.deleted = vec![(29_900_000, "igw-1".to_owned()), (89_000_000, "igw-2".to_owned())];
        let drains = Drain::all(&told);
        let seen: Vec<_> =
            drains.iter().map(|drain| (drain.begun, drain.until, drain.pod, drain.alone)).collect();
        assert_eq!(
            seen,
            [
                (Some(30_000_000), 90_000_000, Some("igw-1"), false),
                (Some(90_000_000), i64::MAX, Some("igw-2"), false)
            ]
        );
        let files =
            ["igw-1.pcap", "worker1.pcap"].map(|file| From { file: file.to_owned(), told: (), whole: true });
        assert_eq!(drains[0].files(&files).len(), 1);
        assert_eq!(drains[1].files(&files).len(), 0);
        assert_eq!(drains[0].hc_at(0), States::only(open));
        assert_eq!(drains[0].hc_at(30_000_000), States::only(closing));
    }

    /// Exercises names that begin or end with another pod's, so that only whole words count.
    #[test]
    fn whole_names() {
        assert!(is_named("igw-1.pcap", "igw-1") && is_named("node.igw-1_eth0.pcap", "igw-1"));
        for file in ["igw-10.pcap", "bigw-1.pcap", "worker1.pcap", "igw-"] {
            assert!(!is_named(file, "igw-1"), "{file}");
        }
    }

    /// Exercises a sidecar that never turned, so that the run is one without a drain, and its codes tell what the LB was told.
    #[test]
    fn no_drain() {
        let told = evidence(vec![Life { answers: vec![(5, 200)], ..Life::default() }]);
        let drains = Drain::all(&told);
        assert_eq!((drains.len(), drains[0].begun, drains[0].hc_at(9)), (1, None, States::UP));
        let turned = evidence(vec![Life { answers: vec![(5, 200), (9, 503)], ..Life::default() }]);
        assert_eq!(Drain::all(&turned)[0].begun, Some(9));
    }
}
