//! When the pods of a trace are gone, and how their drains ended. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use crate::{api::message::Message, drain::verdict::Outcome};

/// How long a daemon that began anew may take to name a pod again.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was seen of the pods, by UID.
#[derive(Debug, Default)]
pub struct UntilGone {
    /// Those that were there before the first was gone.
    awaited: BTreeSet<String>,
    gone: BTreeSet<String>,
    /// The last verdict on each since it is gone, or before.
    verdicts: BTreeMap<String, Outcome>,
    /// Those that no daemon has named since one could be heard again, and since when.
    unnamed: BTreeMap<String, Instant>,
}

impl UntilGone {
    /// Takes a message in. When it was the last that was waited for, the exit code: that of the worst verdict. A pod that comes
    /// back by the same name is another one, and not waited for once one is gone.
    pub fn see(&mut self, message: &Message, now: Instant) -> Option<u8> {
        match message {
            Message::Hello { .. } => {
                self.unnamed = self.awaited.iter().map(|uid| (uid.clone(), now)).collect();
            }
            Message::Pod(status) => {
                self.unnamed.remove(&status.uid);
                if status.gone && self.awaited.contains(&status.uid) {
                    // A drain before that was called off is not the last one.
                    if self.gone.insert(status.uid.clone()) {
                        self.verdicts.remove(&status.uid);
                    }
                } else if !status.gone && self.gone.is_empty() {
                    self.awaited.insert(status.uid.clone());
                }
            }
            Message::Verdict(summary) => {
                self.verdicts.insert(summary.uid.clone(), summary.verdict);
            }
            _ => return None,
        }
        self.outcome()
    }

    /// Lets time pass. A pod that a daemon has not named since it began anew was gone by then: nobody can judge its drain.
    pub fn tick(&mut self, now: Instant) -> Option<u8> {
        for (uid, since) in &self.unnamed {
            if now.saturating_duration_since(*since) > PATIENCE && self.gone.insert(uid.clone()) {
                self.verdicts.insert(uid.clone(), Outcome::Inconclusive);
            }
        }
        self.outcome()
    }

    fn outcome(&self) -> Option<u8> {
        let is_over = |uid: &String| self.gone.contains(uid) && self.verdicts.contains_key(uid);
        if self.awaited.is_empty() || !self.awaited.iter().all(is_over) {
            return None;
        }
        let outcomes = self.awaited.iter().filter_map(|uid| self.verdicts.get(uid));
        outcomes.max_by_key(|outcome| weight(**outcome)).map(|outcome| *outcome as u8)
    }
}

/// The worse, the heavier.
fn weight(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Protected => 0,
        Outcome::Inconclusive => 1,
        Outcome::Broken => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::message::PodStatus,
        drain::{
            fact::{Fact, Timed},
            record::Record,
        },
    };

    fn pod(uid: &str, gone: bool) -> Message {
        Message::Pod(Box::new(PodStatus { uid: uid.to_owned(), gone, ..PodStatus::default() }))
    }

    fn verdict(uid: &str, verdict: Outcome) -> Message {
        let facts = vec![Timed { ts: 1, fact: Fact::PodDeleted { grace_seconds: 1 } }];
        let mut summary = Record::of("n", "p", uid, facts, 0).unwrap().summary();
        summary.verdict = verdict;
        Message::Verdict(Box::new(summary))
    }

    /// What the last of them gives; none of those before gives anything.
    fn code(messages: &[Message]) -> Option<u8> {
        let (mut until, now) = (UntilGone::default(), Instant::now());
        let (last, before) = messages.split_last().unwrap();
        assert!(before.iter().all(|message| until.see(message, now).is_none()));
        until.see(last, now)
    }

    /// Exercises one pod's drain, one that was called off before, and another pod that takes its name.
    #[test]
    fn one_pod() {
        use Outcome::{Broken, Inconclusive, Protected};

        for (outcome, expected) in [(Protected, 0), (Broken, 2), (Inconclusive, 3)] {
            assert_eq!(code(&[pod("a", false), pod("a", true), verdict("a", outcome)]), Some(expected));
        }
        assert_eq!(code(&[pod("a", false), verdict("a", Broken)]), None, "called off");
        let again = [pod("a", false), verdict("a", Broken), pod("a", true), verdict("a", Protected)];
        assert_eq!(code(&again), Some(0));
        let next = [pod("a", false), pod("a", true), pod("b", false), verdict("a", Protected)];
        assert_eq!(code(&next), Some(0));
    }

    /// Exercises several pods, so that all are waited for and the worst verdict counts.
    #[test]
    fn several() {
        let both = [pod("a", false), pod("b", false), pod("a", true), verdict("a", Outcome::Inconclusive)];
        assert_eq!(code(&both), None);
        let worst = [&both[..], &[pod("b", true), verdict("b", Outcome::Protected)]].concat();
        assert_eq!(code(&worst), Some(3));
        assert_eq!(code(&[pod("old", true)]), None, "its verdict is history");
    }

    /// Exercises a daemon that begins anew, once while the pod is there and once when it is gone, so that nobody waits for a
    /// verdict that cannot come.
    #[test]
    fn a_daemon_that_begins_anew() {
        let hello = Message::Hello { node: None, version: String::new(), now: String::new() };
        let (mut until, now) = (UntilGone::default(), Instant::now());
        for message in [&hello, &pod("a", false), &hello, &pod("a", false)] {
            assert_eq!(until.see(message, now), None);
        }
        assert_eq!(until.tick(now + PATIENCE * 2), None, "it is there again");
        assert_eq!(until.see(&hello, now), None);
        assert_eq!(until.tick(now + PATIENCE), None);
        assert_eq!(until.tick(now + PATIENCE * 2), Some(3));
    }
}
