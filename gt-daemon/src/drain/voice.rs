//! A source inside a pod, and when it was silent. Pure.

use std::collections::VecDeque;

use super::fact::{Fact, Source, Timed};

/// A source that is silent for longer has not seen that time, microseconds: the slow pace asks every five seconds.
const SILENCE: i64 = 5_000_000;

/// Silences that are remembered: with more of them the first ones are long before any drain.
const MOST: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Voice {
    /// When it answered last, UTC microseconds.
    answered: Option<i64>,
    /// From one answer to the next, where that took long. Whether it matters is known when the drain is.
    silences: VecDeque<(i64, i64)>,
}

impl Voice {
    /// It answered; `since`: when it was begun to be asked at the earliest.
    pub(super) fn answers(&mut self, at: i64, since: i64) {
        let before = self.answered.unwrap_or(since);
        self.answered = Some(before.max(at));
        if at.saturating_sub(before) > SILENCE {
            if self.silences.len() >= MOST {
                self.silences.pop_front();
            }
            self.silences.push_back((before, at));
        }
    }

    /// Whether it answered neither shortly before an instant nor shortly after.
    pub(super) fn is_silent_around(&self, at: i64) -> bool {
        let covers = |(begun, ended): &(i64, i64)| {
            (begun.saturating_add(SILENCE)..ended.saturating_sub(SILENCE)).contains(&at)
        };
        self.answered.is_none_or(|answered| at.saturating_sub(answered) > SILENCE)
            || self.silences.iter().any(covers)
    }

    /// What it has not seen between two instants, as of now.
    pub(super) fn gaps(&self, source: Source, from: i64, until: i64, now: i64) -> Vec<Timed> {
        let Some(answered) = self.answered else {
            return vec![gap(now, source, 0, "it never answered")];
        };
        let silences = self.silences.iter().copied().chain([(answered, now)]);
        silences
            .filter_map(|(begun, ended)| {
                let (begun, ended) = (begun.max(from), ended.min(until));
                let length_us = ended.saturating_sub(begun);
                (length_us > SILENCE)
                    .then(|| gap(ended, source, length_us, "it did not answer while users were connected"))
            })
            .collect()
    }
}

/// A gap as a fact.
pub(super) fn gap(ts: i64, source: Source, length_us: i64, why: &str) -> Timed {
    Timed { ts, fact: Fact::Gap { source, length_us, why: why.to_owned() } }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    /// Exercises instants around a silence, so that only what is long after an answer and long before the next is silent.
    #[test]
    fn silent_around() {
        let mut voice = Voice::default();
        assert!(voice.is_silent_around(0), "it never answered");
        for second in [1, 2, 20] {
            voice.answers(second * SECOND, 0);
        }
        let silent: Vec<_> = (0..=30).filter(|second| voice.is_silent_around(second * SECOND)).collect();
        assert_eq!(silent, (7..15).chain(26..=30).collect::<Vec<_>>());
    }

    fn lengths(voice: &Voice, from: i64, until: i64, now: i64) -> Vec<i64> {
        let gaps = voice.gaps(Source::Hc, from * SECOND, until * SECOND, now * SECOND);
        gaps.into_iter()
            .map(|timed| match timed.fact {
                Fact::Gap { length_us, .. } => length_us / SECOND,
                _ => -1,
            })
            .collect()
    }

    /// Exercises silences before, in and after a drain, so that those in it count, as far as they are in it.
    #[test]
    fn silences() {
        let mut voice = Voice::default();
        assert_eq!(lengths(&voice, 0, 10, 10), [0]);
        for second in [8, 9, 20, 21, 26] {
            voice.answers(second * SECOND, 0);
        }
        assert_eq!(lengths(&voice, 0, 40, 40), [8, 11, 14]);
        assert_eq!(lengths(&voice, 10, 17, 27), [7]);
        assert_eq!(lengths(&voice, 10, 15, 27), [0; 0]);
        assert_eq!(lengths(&voice, 21, 27, 27), [0; 0]);
    }
}
