//! What is noted of a pod, told at once to whoever listens. Pure.

use std::mem;

use serde::{Deserialize, Serialize};

use super::fact::{Fact, Timed};

/// How good the word on a fact is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// As the kernel saw it, at once: a teardown whose judgement waits for hc or the proxy, and follows with the same
    /// `connection`.
    Seen,
    /// What is known.
    Told,
    /// More is known now of what was told before: of a teardown by its `connection`, of a change of hc by its states, the
    /// stamp being a better one.
    Better,
}

/// Facts that wait to be told. While nobody listens none is kept.
#[derive(Debug, Default)]
pub(super) struct News {
    listens: bool,
    facts: Vec<(Word, Timed)>,
}

impl News {
    /// Whether somebody listens.
    pub(super) fn listen(&mut self, listens: bool) {
        self.listens = listens;
        if !listens {
            self.facts = Vec::new();
        }
    }

    pub(super) fn tell(&mut self, word: Word, timed: &Timed) {
        if self.listens {
            self.facts.push((word, timed.clone()));
        }
    }

    /// The changes of hc, all that are known by now, after others were.
    pub(super) fn hc(&mut self, before: &[Timed], now: Vec<Timed>) {
        if !self.listens {
            return;
        }
        let mut old: Vec<_> = before.iter().collect();
        let mut new = Vec::new();
        for timed in now {
            match old.iter().position(|known| **known == timed) {
                Some(known) => drop(old.remove(known)),
                None => new.push(timed),
            }
        }
        for timed in new {
            let known = old.iter().position(|known| known.fact == timed.fact);
            let word = known.map_or(Word::Told, |_| Word::Better);
            known.map(|known| old.remove(known));
            self.facts.push((word, timed));
        }
    }

    /// Takes them, in the order of their coming.
    pub(super) fn take(&mut self) -> Vec<(Word, Timed)> {
        mem::take(&mut self.facts)
    }
}

/// Whether a fact is told by others: an RST is told when it is seen, not when its connection's end is judged.
pub(super) fn is_told_elsewhere(fact: &Fact) -> bool {
    matches!(fact, Fact::TcpRst { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::fact::Hc;

    fn hc(ts: i64, to: Hc) -> Timed {
        Timed { ts, fact: Fact::HcState { from: None, to: Some(to), lb_told: None } }
    }

    /// Exercises changes of hc that are found out by a poll, and whose exact instants a log tells later, so that each is told
    /// once and its better stamp is known for one.
    #[test]
    fn a_better_stamp() {
        let mut news = News::default();
        news.hc(&[], vec![hc(1, Hc::Open)]);
        assert!(news.take().is_empty(), "nobody listens");
        news.listen(true);
        let polled = [hc(1, Hc::Open), hc(9, Hc::Draining)];
        news.hc(&polled[..1], polled.to_vec());
        let logged = [hc(1, Hc::Open), hc(7, Hc::Draining), hc(8, Hc::Closing)];
        news.hc(&polled, logged.to_vec());
        assert_eq!(
            news.take(),
            [
                (Word::Told, hc(9, Hc::Draining)),
                (Word::Better, hc(7, Hc::Draining)),
                (Word::Told, hc(8, Hc::Closing))
            ]
        );
        news.hc(&logged, logged.to_vec());
        assert!(news.take().is_empty());
        news.tell(Word::Seen, &hc(3, Hc::Open));
        news.listen(false);
        news.listen(true);
        assert!(news.take().is_empty(), "what was told to nobody is not told to the next");
    }
}
