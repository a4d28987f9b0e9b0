//! What an LB did with a pod at an instant, by all that is known of it. Pure; the order in which words come does not matter.

use std::collections::{BTreeMap, btree_map::Entry};

use super::{
    follow::{Said, What},
    word::Serving,
};

/// Two words between which the LB turned away: when they are further apart, microseconds, nobody knows whether what ended
/// between them ended before or after.
const NARROW: i64 = 5_000_000;

/// Words of one server, and servers, that are remembered.
const MOST: usize = 64;

/// What the LB did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nobody told.
    Untold,
    /// It sent requests, or left those that were there.
    Served,
    /// It had marked the pod DOWN, or did so just then.
    Down,
    /// It may have.
    Unclear,
}

/// The words of all servers of one pod.
#[derive(Clone, Debug, Default)]
pub struct History {
    servers: BTreeMap<String, BTreeMap<i64, Word>>,
}

/// The order is that in which of two words of one instant the greater one stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Serves,
    Unknown,
    /// Down by now; not before this instant, if that is known.
    Down(Option<i64>),
}

impl Word {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Down(Some(one)), Self::Down(Some(two))) => Self::Down(Some(one.min(two))),
            _ => self.max(other),
        }
    }
}

impl History {
    /// Takes a word in.
    pub fn said(&mut self, said: &Said) {
        match &said.what {
            What::Status { serving, .. } => self.status(said.ts, &said.server, *serving),
            What::Down { last_up } => self.down(said.ts, &said.server, *last_up),
        }
    }

    /// Its word changed.
    pub fn status(&mut self, ts: i64, server: &str, serving: Option<Serving>) {
        let word = match serving {
            Some(Serving::Up | Serving::NoNew) => Word::Serves,
            Some(Serving::Down) => Word::Down(None),
            None => Word::Unknown,
        };
        self.add(ts, server, word);
    }

    /// It took the pod for down, and had not done so at `last_up`; `None`: at that very instant.
    pub fn down(&mut self, ts: i64, server: &str, last_up: Option<i64>) {
        self.add(ts, server, Word::Down(Some(last_up.unwrap_or(ts))));
    }

    fn add(&mut self, ts: i64, server: &str, word: Word) {
        if self.servers.len() >= MOST && !self.servers.contains_key(server) {
            return;
        }
        let words = self.servers.entry(server.to_owned()).or_default();
        match words.entry(ts) {
            Entry::Occupied(mut known) => drop(known.insert(known.get().and(word))),
            Entry::Vacant(place) => drop(place.insert(word)),
        }
    }

    /// Forgets the oldest words beyond a bound.
    pub fn trim(&mut self) {
        for words in self.servers.values_mut() {
            while words.len() > MOST {
                words.pop_first();
            }
        }
    }

    /// When the last word was said, UTC microseconds.
    #[must_use]
    pub fn last(&self) -> Option<i64> {
        self.servers.values().filter_map(|words| words.last_key_value().map(|(ts, _)| *ts)).max()
    }

    /// What the LB did at an instant, UTC microseconds. With several servers: it was DOWN when one turned away just then, or all
    /// had by then.
    #[must_use]
    pub fn at(&self, at: i64) -> Held {
        let all: Vec<_> = self.servers.values().filter_map(|words| one(words, at)).collect();
        let any = |is: One| all.contains(&is);
        match () {
            () if all.is_empty() => Held::Untold,
            () if any(One::Turns) || all.iter().all(|one| *one == One::Down) => Held::Down,
            () if any(One::Unclear) => Held::Unclear,
            () => Held::Served,
        }
    }
}

/// One server at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum One {
    Serves,
    Turns,
    Down,
    Unclear,
}

fn one(words: &BTreeMap<i64, Word>, at: i64) -> Option<One> {
    let before = words.range(..=at).next_back();
    let after = words.range(at..).find(|(ts, _)| **ts > at);
    if let Some((_, Word::Down(_))) = before {
        return Some(One::Down);
    }
    if let Some((ts, Word::Down(since))) = after {
        // Without another word it was not down when it was last heard to serve.
        let served = before.filter(|(_, word)| **word == Word::Serves).map(|(ts, _)| *ts);
        match since.or(served) {
            Some(since) if at < since => {}
            Some(since) if ts.saturating_sub(since) <= NARROW => return Some(One::Turns),
            _ => return Some(One::Unclear),
        }
    }
    match (before, after) {
        (Some((_, Word::Serves)), _) | (None, Some((_, Word::Serves | Word::Down(_)))) => Some(One::Serves),
        (None, None) => None,
        _ => Some(One::Unclear),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000;

    /// Words of one server: `u`p, `d`own, `?`, by second.
    fn history(words: &[(i64, char)]) -> History {
        let mut history = History::default();
        for (second, word) in words {
            let serving = match word {
                'u' => Some(Serving::Up),
                'd' => Some(Serving::Down),
                _ => None,
            };
            history.status(second * SECOND, "s", serving);
        }
        history
    }

    fn at(history: &History, tenths: i64) -> Held {
        history.at(tenths * SECOND / 10)
    }

    /// Exercises instants around a DOWN that two looks enclose, so that what ended between them is the LB's, and before them
    /// is not.
    #[test]
    fn between_two_looks() {
        let mut seen = history(&[(1, 'u'), (3, 'd')]);
        seen.down(3 * SECOND, "s", Some(2 * SECOND));
        let held = [5, 19, 21, 30, 99].map(|tenths| at(&seen, tenths));
        assert_eq!(held, [Held::Served, Held::Served, Held::Down, Held::Down, Held::Down]);
        let mut wide = history(&[(1, 'u'), (9, 'd')]);
        wide.down(9 * SECOND, "s", Some(2 * SECOND));
        assert_eq!([19, 21, 90].map(|tenths| at(&wide, tenths)), [Held::Served, Held::Unclear, Held::Down]);
        let mut exact = History::default();
        exact.down(5 * SECOND, "s", None);
        assert_eq!((exact.last(), History::default().last()), (Some(5 * SECOND), None));
        assert_eq!([49, 50].map(|tenths| at(&exact, tenths)), [Held::Served, Held::Down]);
    }

    /// Exercises words that tell nothing, or come late, so that nobody is taken to serve who may not have.
    #[test]
    fn unclear() {
        assert_eq!(History::default().at(0), Held::Untold);
        assert_eq!(at(&history(&[(1, '?')]), 20), Held::Unclear);
        assert_eq!(at(&history(&[(1, '?')]), 5), Held::Unclear);
        assert_eq!(at(&history(&[(1, 'd')]), 5), Held::Unclear);
        assert_eq!(at(&history(&[(1, '?'), (2, 'd')]), 15), Held::Unclear);
        assert_eq!(at(&history(&[(1, 'u')]), 5), Held::Served);
        assert_eq!(at(&history(&[(1, 'u'), (2, '?')]), 25), Held::Unclear);
        assert_eq!(at(&history(&[(1, 'd'), (2, 'u')]), 25), Held::Served);
        assert_eq!(at(&history(&[(1, 'u'), (4, 'd')]), 25), Held::Down);
    }

    /// Exercises two LBs of one pod, so that one that turned away long ago blames nobody for what ends at the other.
    #[test]
    fn several_servers() {
        let mut both = history(&[(1, 'u')]);
        both.status(SECOND, "t", Some(Serving::Up));
        both.status(4 * SECOND, "t", Some(Serving::Down));
        both.down(4 * SECOND, "t", Some(3 * SECOND));
        assert_eq!([20, 35, 50].map(|tenths| at(&both, tenths)), [Held::Served, Held::Down, Held::Served]);
        both.status(6 * SECOND, "s", Some(Serving::Down));
        assert_eq!(at(&both, 70), Held::Down);
        both.status(7 * SECOND, "x", None);
        assert_eq!(at(&both, 80), Held::Unclear);
    }

    proptest! {
        /// Exercises words in any order, so that it does not matter; and words of service that are missing, so that nobody is
        /// taken to have served for want of them who is not with them. A server that was DOWN stays so for want of a word that
        /// it came back: nobody's connections are looked for there.
        #[test]
        fn order_and_less(
            words in prop::collection::vec((0_i64..20, 0_usize..2, 0_usize..4), 1..12),
            drop in any::<prop::sample::Index>(),
            second in 0_i64..21,
        ) {
            let of = |words: &[(i64, usize, usize)]| {
                let mut history = History::default();
                for (ts, server, what) in words {
                    let (ts, server) = (ts * SECOND, ["a", "b"][*server]);
                    match what {
                        0 => history.status(ts, server, Some(Serving::Up)),
                        1 => history.status(ts, server, None),
                        2 => history.status(ts, server, Some(Serving::Down)),
                        _ => history.down(ts, server, Some(ts - 2 * SECOND)),
                    }
                }
                history.at(second * SECOND)
            };
            let whole = of(&words);
            let mut reversed = words.clone();
            reversed.reverse();
            prop_assert_eq!(of(&reversed), whole);
            let mut less = words.clone();
            let (_, server, what) = less.remove(drop.index(words.len()));
            let others = less.iter().any(|(_, other, _)| *other == server);
            let was_down = less.iter().any(|(ts, other, what)| *other == server && *what >= 2 && *ts <= second);
            if what == 0 && others && !was_down && whole != Held::Served {
                prop_assert_ne!(of(&less), Held::Served);
            }
        }
    }
}
