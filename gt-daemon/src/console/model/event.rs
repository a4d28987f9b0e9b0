//! One line of what happened, and lists of them in order of time and in bounded memory. Pure.

use std::collections::VecDeque;

use crate::{
    api::message::Word,
    drain::fact::{End, Fact},
};

/// So many characters of a line are kept.
const LONGEST: usize = 400;

/// What a line is about; lines are filtered by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Hc,
    Lb,
    /// Requests in flight at the proxy.
    Requests,
    Connections,
    /// An end of a connection without a cut, or of which that is not certain.
    End,
    Cut,
    Rst,
    /// The pod itself: deletion, restart, gone, the verdict.
    Pod,
    /// Something was not seen, by the daemon or by this console.
    Gap,
}

impl Kind {
    /// All, in the order of their keys 1 to 9.
    pub const ALL: [Self; 9] = [
        Self::Hc,
        Self::Lb,
        Self::Requests,
        Self::Connections,
        Self::End,
        Self::Cut,
        Self::Rst,
        Self::Pod,
        Self::Gap,
    ];

    /// The word on the screen.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Hc => "hc",
            Self::Lb => "lb",
            Self::Requests => "requests",
            Self::Connections => "conns",
            Self::End => "end",
            Self::Cut => "CUT",
            Self::Rst => "rst",
            Self::Pod => "pod",
            Self::Gap => "GAP",
        }
    }

    /// Of a fact, by the word on it.
    #[must_use]
    pub fn of(fact: &Fact, word: Word) -> Self {
        match fact {
            Fact::TcpTeardown(_) if word == Word::Seen => Self::End,
            Fact::HcState { .. } => Self::Hc,
            Fact::LbStatus { .. } | Fact::HaproxyBackendDown { .. } => Self::Lb,
            Fact::EnvoyDrainListeners | Fact::EnvoyActiveCount { .. } => Self::Requests,
            Fact::Connections { .. } => Self::Connections,
            Fact::TcpTeardown(end) if end.is_cut() => Self::Cut,
            Fact::TcpTeardown(_) => Self::End,
            Fact::TcpRst { .. } => Self::Rst,
            Fact::PodDeleted { .. } | Fact::PodGone | Fact::Ended => Self::Pod,
            Fact::Gap { .. } => Self::Gap,
        }
    }
}

/// A line. The order is that of time, then that in which they were told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// UTC microseconds.
    pub ts: i64,
    /// Counts up over all lines of a console.
    pub number: u64,
    pub kind: Kind,
    pub text: String,
    /// What it is the word on, when another word may follow.
    pub about: Option<About>,
}

/// What several words can be on: the weightiest stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// The end of a connection, and how weighty the word is.
    Connection(u64, u8),
    /// A change of hc by its states, of which a better stamp may be told.
    Change(String),
}

impl About {
    /// Of a fact.
    #[must_use]
    pub fn of(fact: &Fact, word: Word) -> Option<Self> {
        match fact {
            Fact::TcpTeardown(end) => Some(Self::Connection(end.connection?, weight(end, word))),
            Fact::HcState { from, to, .. } => Some(Self::Change(format!("{from:?} {to:?}"))),
            _ => None,
        }
    }
}

/// A cut that is proved stands, then what is certain, then what is judged.
fn weight(end: &End, word: Word) -> u8 {
    match (word, end.sure, end.evidence.is_some()) {
        (Word::Seen, ..) => 0,
        (_, false, _) => 1,
        (_, true, false) => 2,
        (_, true, true) => 3,
    }
}

impl Event {
    /// A line, cut where it is longer than anything gt tells.
    #[must_use]
    pub fn new(ts: i64, number: u64, kind: Kind, mut text: String) -> Self {
        if let Some((end, _)) = text.char_indices().nth(LONGEST) {
            text.truncate(end);
        }
        Self { ts, number, kind, text, about: None }
    }

    /// The same, with what it is about.
    #[must_use]
    pub fn about(self, about: Option<About>) -> Self {
        Self { about, ..self }
    }
}

/// What is told again is looked for among so many lines, the newest.
const AGAIN: usize = 1_024;

/// Lines in order; the newest stay.
#[derive(Clone, Debug, Default)]
pub struct Events {
    events: VecDeque<Event>,
}

impl Events {
    /// Takes a line in. `true` when it made the list longer than `most`, and the oldest gave way.
    pub fn add(&mut self, event: Event, most: usize) -> bool {
        let place = self.events.partition_point(|other| *other <= event);
        self.events.insert(place, event);
        let over = self.events.len() > most;
        if over {
            self.events.pop_front();
        }
        over
    }

    /// Makes room for a better word on the same: `true` when there is none yet that weighs more. How many gave way is
    /// counted down from `kept`.
    pub fn make_room(&mut self, about: &About, is_better: bool, kept: &mut usize) -> bool {
        let is_same = |known: &About| match (known, about) {
            (About::Connection(known, _), About::Connection(connection, _)) => known == connection,
            // The same change can come again, as another one.
            (known, about) => is_better && known == about,
        };
        let first = self.events.len().saturating_sub(AGAIN);
        let known = self.events.range(first..).rposition(|event| event.about.as_ref().is_some_and(is_same));
        let Some(place) = known.map(|place| first + place) else { return true };
        let known = self.events.get(place).and_then(|event| event.about.as_ref());
        if known.is_some_and(|known| known > about) {
            return false;
        }
        self.events.remove(place);
        *kept = kept.saturating_sub(1);
        true
    }

    /// Forgets the oldest one.
    pub fn drop_oldest(&mut self) {
        self.events.pop_front();
    }

    /// Oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.events.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises lines told late and too many, so that they stand in order of time and the newest stay.
    #[test]
    fn in_order_and_bounded() {
        let mut events = Events::default();
        for (number, ts) in [5, 3, 9, 3, 1].into_iter().enumerate() {
            events.add(Event::new(ts, number as u64, Kind::Hc, String::new()), 4);
        }
        let order: Vec<_> = events.iter().map(|event| (event.ts, event.number)).collect();
        assert_eq!(order, [(3, 1), (3, 3), (5, 0), (9, 2)]);
    }

    /// Exercises words on one end and one change of hc, so that the weightiest word and the better stamp stand alone.
    #[test]
    fn better_words() {
        let mut events = Events::default();
        let mut kept = 0;
        let mut tell = |ts, about: About, is_better| {
            if events.make_room(&about, is_better, &mut kept) {
                events.add(Event::new(ts, 0, Kind::End, String::new()).about(Some(about)), 100);
                kept += 1;
            }
        };
        for (ts, weight) in [(1, 0), (2, 3), (3, 2)] {
            tell(ts, About::Connection(7, weight), false);
        }
        tell(4, About::Connection(8, 0), false);
        let change = || About::Change("OPEN DRAINING".to_owned());
        tell(9, change(), false);
        tell(6, change(), true);
        tell(20, change(), false);
        let at: Vec<_> = events.iter().map(|event| event.ts).collect();
        assert_eq!((at, kept), (vec![2, 4, 6, 20], 4));
    }

    /// Exercises a line without end, cut between two characters.
    #[test]
    fn long_lines() {
        let event = Event::new(0, 0, Kind::Gap, "ü".repeat(10_000));
        assert_eq!(event.text.chars().count(), LONGEST);
    }
}
