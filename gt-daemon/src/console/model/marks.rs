//! Ends of connections and RSTs as marks on the axis of time, in bounded memory. Pure.

use std::collections::VecDeque;

use crate::drain::fact::End;

/// So many marks of either sort are kept: the newest.
pub const MOST: usize = 4_096;

/// An end that is told again so long after, microseconds, is judged again; numbers of connections can come back later.
const AGAIN: i64 = 10_000_000;

/// How an end counts; a cell shows the weightiest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// No request was cut.
    Clean,
    /// The client gave its request up while the LB was told 200.
    Client,
    /// It is not certain whether a request was cut.
    Uncertain,
    /// A request was cut.
    Cut,
}

impl Mark {
    /// Of an end.
    #[must_use]
    pub fn of(end: &End) -> Self {
        match (end.is_cut(), end.may_be_cut(), end.is_clients()) {
            (true, _, true) => Self::Client,
            (true, ..) => Self::Cut,
            (false, true, _) => Self::Uncertain,
            (false, false, _) => Self::Clean,
        }
    }
}

/// Of two words on one connection a cut that is proved stands, then what is certain.
fn weight(mark: Mark) -> u8 {
    match mark {
        Mark::Uncertain => 0,
        Mark::Clean => 1,
        Mark::Client => 2,
        Mark::Cut => 3,
    }
}

/// Marks in order of time.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    ends: VecDeque<(i64, Mark, Option<u64>)>,
    rsts: VecDeque<i64>,
}

impl Marks {
    /// An end. One of a connection that is judged again takes the first word's place when it weighs more.
    pub fn end(&mut self, ts: i64, end: &End) {
        let mark = Mark::of(end);
        let from = self.ends.partition_point(|(at, ..)| *at < ts.saturating_sub(AGAIN));
        let until = self.ends.partition_point(|(at, ..)| *at <= ts.saturating_add(AGAIN));
        let same = |known: &&mut (i64, Mark, Option<u64>)| known.2 == end.connection;
        if end.connection.is_some()
            && let Some(known) = self.ends.range_mut(from..until).find(same)
        {
            known.1 = if weight(mark) > weight(known.1) { mark } else { known.1 };
            return;
        }
        let place = self.ends.partition_point(|(at, ..)| *at <= ts);
        self.ends.insert(place, (ts, mark, end.connection));
        if self.ends.len() > MOST {
            self.ends.pop_front();
        }
    }

    /// An RST.
    pub fn rst(&mut self, ts: i64) {
        let place = self.rsts.partition_point(|at| *at <= ts);
        self.rsts.insert(place, ts);
        if self.rsts.len() > MOST {
            self.rsts.pop_front();
        }
    }

    /// The weightiest end from one instant until before another.
    #[must_use]
    pub fn weightiest(&self, from: i64, to: i64) -> Option<Mark> {
        let first = self.ends.partition_point(|(at, ..)| *at < from);
        self.ends.range(first..).take_while(|(at, ..)| *at < to).map(|(_, mark, _)| *mark).max()
    }

    /// Whether there was an RST from one instant until before another.
    #[must_use]
    pub fn any_rst(&self, from: i64, to: i64) -> bool {
        let first = self.rsts.partition_point(|at| *at < from);
        self.rsts.get(first).is_some_and(|at| *at < to)
    }

    /// How many marks are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len() + self.rsts.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(connection: Option<u64>, evidence: Option<&str>, sure: bool, cause: &str) -> End {
        End { connection, sure, ..End::new("fin_received", evidence, cause) }
    }

    /// Exercises an end that is judged again and others of the same instant, so that each connection has its weightiest word
    /// and a cell shows the weightiest of all.
    #[test]
    fn weights() {
        let mut marks = Marks::default();
        marks.end(7, &end(Some(1), Some("possible"), false, "lb_flush"));
        marks.end(7, &end(Some(2), None, true, "lb_flush"));
        assert_eq!(marks.weightiest(7, 8), Some(Mark::Uncertain));
        marks.end(7, &end(Some(1), Some("l7"), true, "lb_flush"));
        marks.end(7, &end(Some(1), None, true, "lb_flush"));
        assert_eq!((marks.weightiest(7, 8), marks.len()), (Some(Mark::Cut), 2));
        // Told again a little later, and certain now.
        marks.end(8, &end(Some(3), Some("possible"), false, "lb_flush"));
        marks.end(9, &end(Some(3), None, true, "lb_flush"));
        assert_eq!((marks.weightiest(8, 10), marks.len()), (Some(Mark::Clean), 3));
        marks.end(9, &end(None, Some("l7"), true, "client_abort"));
        assert_eq!((marks.weightiest(8, 10), marks.weightiest(0, 7)), (Some(Mark::Client), None));
        marks.rst(20);
        marks.rst(12);
        assert_eq!([(12, 13), (13, 20), (13, 21)].map(|(a, b)| marks.any_rst(a, b)), [true, false, true]);
    }
}
