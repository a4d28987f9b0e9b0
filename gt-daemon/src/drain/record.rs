//! What is left of a drain: its facts, and what was made of them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    fact::{Fact, Source, Timed, stamp},
    intervals::{Intervals, intervals},
    verdict::{Counts, Outcome, Verdict, begin, verdict, without_drain},
};

/// A drain that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    pub verdict: Verdict,
    pub intervals: Intervals,
    /// In order of time.
    pub facts: Vec<Timed>,
    /// Further facts that found no room and change nothing: ends without a cut, changes of numbers.
    pub left_out: u64,
}

/// A record without its facts: what `intervals.json` holds. What is not known is `null`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    /// RFC 3339, as all stamps.
    pub began: Option<String>,
    pub ended: Option<String>,
    pub verdict: Outcome,
    pub reasons: Vec<String>,
    #[serde(flatten)]
    pub intervals: Intervals,
    pub evidence: Counts,
    pub gaps: Vec<Timed>,
    pub left_out: u64,
}

impl Record {
    /// Judges facts in order; `None` when they tell of no drain.
    #[must_use]
    pub fn of(namespace: &str, pod: &str, uid: &str, facts: Vec<Timed>, left_out: u64) -> Option<Self> {
        let verdict = verdict(&facts)?;
        let intervals = intervals(&facts);
        Some(Self {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            uid: uid.to_owned(),
            verdict,
            intervals,
            facts,
            left_out,
        })
    }

    /// Judges facts in order of which none tells of a drain: what was cut was cut, and the rest is not known.
    #[must_use]
    pub fn without_drain(pod: &str, facts: Vec<Timed>, left_out: u64) -> Self {
        Self {
            namespace: String::new(),
            pod: pod.to_owned(),
            uid: String::new(),
            verdict: without_drain(&facts),
            intervals: Intervals::default(),
            facts,
            left_out,
        }
    }

    /// Holds what its facts say against what was said when they were written: where that was more, or of other numbers, facts
    /// are missing, and it is not protected. Whether that was so.
    pub fn hold_against(&mut self, summary: &Summary) -> bool {
        let is_less = self.outcome() == Outcome::Protected
            && (summary.verdict != Outcome::Protected || summary.evidence != self.verdict.counts);
        let begun = self.begun().filter(|_| is_less);
        let Some(begun) = begun else { return false };
        let why = format!("its verdict was {} when it was written, by other facts", summary.verdict.word());
        self.facts.push(Timed { ts: begun, fact: Fact::Gap { source: Source::Record, length_us: 0, why } });
        self.facts.sort();
        if let Some(verdict) = verdict(&self.facts) {
            self.verdict = verdict;
        }
        true
    }

    /// What is to be told of it in short.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let ended = self.facts.iter().rev().find(|timed| timed.fact == Fact::Ended);
        Summary {
            namespace: self.namespace.clone(),
            pod: self.pod.clone(),
            uid: self.uid.clone(),
            began: self.begun().map(stamp),
            ended: ended.map(|timed| stamp(timed.ts)),
            verdict: self.outcome(),
            reasons: self.verdict.reasons.clone(),
            intervals: self.intervals,
            evidence: self.verdict.counts.clone(),
            gaps: self.facts.iter().filter(|timed| matches!(timed.fact, Fact::Gap { .. })).cloned().collect(),
            left_out: self.left_out,
        }
    }

    /// Its beginning and its pod, so that ids sort by time: the name of its directory. It stays inside of one directory
    /// whatever the pod is called.
    #[must_use]
    pub fn id(&self) -> String {
        let begun = Timestamp::from_microsecond(self.begun().unwrap_or(0)).unwrap_or_default();
        let plain = |text: &str, most: usize| -> String {
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '.';
            text.chars().take(most).map(|letter| if is_plain(letter) { letter } else { '-' }).collect()
        };
        let (namespace, pod, uid) = (plain(&self.namespace, 63), plain(&self.pod, 100), plain(&self.uid, 36));
        format!("{}_{namespace}_{pod}_{uid}", begun.strftime("%Y%m%dT%H%M%S.%6fZ"))
    }

    /// When it began, UTC microseconds.
    #[must_use]
    pub fn begun(&self) -> Option<i64> {
        begin(&self.facts)
    }

    /// The verdict alone.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.verdict.outcome
    }
}
