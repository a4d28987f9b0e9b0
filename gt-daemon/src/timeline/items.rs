//! Ends of connections and streams, each once, however many witnesses tell of it.
//!
//! Captures give ends; each other witness claims those it tells of, the nearest in time first, and adds what no end is there
//! for. What one witness has claimed another may claim as well: it is the same cut.

use std::collections::BTreeMap;

use crate::{
    correlate::{
        cause::Cause,
        torn::{Ending, Proof},
    },
    drain::fact::{End, Fact, Timed},
};

/// One end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub ts: i64,
    pub ending: Ending,
    pub proof: Option<Proof>,
    pub cause: Cause,
    pub sure: bool,
    pub count: u64,
    pub connection: Option<u64>,
    pub phase: Option<&'static str>,
    pub protocol: Option<&'static str>,
    pub remote: Option<std::net::SocketAddr>,
    /// Whether a witness has said who ended it, so that its instant alone does not.
    pub blamed: bool,
}

impl Item {
    /// A cut that no capture shows.
    #[must_use]
    pub fn told(ts: i64, ending: Ending, cause: Cause) -> Self {
        Self {
            ts,
            ending,
            proof: Some(Proof::L7),
            cause,
            sure: true,
            count: 1,
            connection: None,
            phase: None,
            protocol: None,
            remote: None,
            blamed: true,
        }
    }

    /// Whether a request was cut for certain.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.proof.is_some() && self.sure
    }

    fn may_be_cut(&self) -> bool {
        self.proof.is_some() || !self.sure
    }
}

/// Who tells of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    EnvoyLog,
    LbLog,
    LbLooks,
}

/// All ends of a drain.
#[derive(Debug, Default)]
pub struct Items {
    all: Vec<(Item, [bool; 3])>,
}

impl Items {
    /// Of captures.
    #[must_use]
    pub fn of(items: Vec<Item>) -> Self {
        Self { all: items.into_iter().map(|item| (item, [false; 3])).collect() }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Item> {
        self.all.iter().map(|(item, _)| item)
    }

    /// A witness tells of a cut between two instants, most likely at the one of `told`. `wanted` says which ends may be meant.
    /// Where none of them is that cut, `told` is added.
    pub fn claim(
        &mut self,
        witness: Witness,
        (from, until): (i64, i64),
        told: Item,
        wanted: impl Fn(&Item) -> bool,
    ) {
        let place = witness as usize;
        let can_be = |(item, claimed): &&mut (Item, [bool; 3])| {
            item.may_be_cut() && !claimed[place] && (from..=until).contains(&item.ts) && wanted(item)
        };
        let nearest = self.all.iter_mut().filter(can_be).min_by_key(|(item, _)| {
            // What is proved is rather meant than what is not.
            (!item.is_cut(), item.ts.abs_diff(told.ts))
        });
        match nearest {
            Some((item, claimed)) => {
                claimed[place] = true;
                item.proof = Some(Proof::L7).filter(|_| told.sure).or(item.proof);
                item.sure |= told.sure;
                if told.blamed && !item.blamed {
                    (item.cause, item.blamed) = (told.cause, true);
                }
            }
            None => {
                let mut claimed = [false; 3];
                claimed[place] = true;
                self.all.push((told, claimed));
            }
        }
    }

    /// Cuts that are certain, those of clients among them.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.iter().filter(|item| item.is_cut()).map(|item| item.count).sum()
    }

    /// An exact account has them all: what is not among them was none.
    pub fn nothing_else(&mut self) {
        for (item, _) in &mut self.all {
            if !item.sure {
                (item.proof, item.sure) = (None, true);
            }
        }
    }

    /// Something more was cut, and nobody tells when.
    pub fn add_unplaced(&mut self, ts: i64, count: u64) {
        let item =
            Item { count, sure: false, blamed: false, ..Item::told(ts, Ending::Unseen, Cause::Unknown) };
        self.all.push((item, [true; 3]));
    }

    /// As facts; what is the same but for its number is one.
    #[must_use]
    pub fn facts(&self) -> Vec<Timed> {
        let mut facts: BTreeMap<Timed, u64> = BTreeMap::new();
        for item in self.iter() {
            let end = End {
                connection: item.connection,
                how: item.ending.word().to_owned(),
                evidence: item.proof.map(|proof| proof.word().to_owned()),
                cause: item.cause.word().to_owned(),
                sure: item.sure,
                count: 0,
                phase: item.phase.map(str::to_owned),
                protocol: item.protocol.map(str::to_owned),
                remote: item.remote.map(|remote| remote.to_string()),
            };
            *facts.entry(Timed { ts: item.ts, fact: Fact::TcpTeardown(end) }).or_default() += item.count;
        }
        let counted = facts.into_iter().map(|(mut timed, count)| {
            if let Fact::TcpTeardown(end) = &mut timed.fact {
                end.count = count;
            }
            timed
        });
        counted.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_capture(ts: i64, proof: Option<Proof>, sure: bool) -> Item {
        let cause = Cause::Unknown;
        Item {
            proof,
            sure,
            blamed: false,
            connection: Some(ts.unsigned_abs()),
            ..Item::told(ts, Ending::FinReceived, cause)
        }
    }

    fn claim(items: &mut Items, witness: Witness, ts: i64) {
        let told = Item::told(ts, Ending::Unseen, Cause::LbFlush);
        items.claim(witness, (ts - 10, ts + 10), told, |_| true);
    }

    /// Exercises three witnesses of the same two cuts, so that they stay two, get their cause, and an idle end is none.
    #[test]
    fn one_cut_many_witnesses() {
        let mut items = Items::of(vec![
            of_capture(100, Some(Proof::Socket), true),
            of_capture(101, None, false),
            of_capture(102, None, true),
        ]);
        for witness in [Witness::LbLog, Witness::EnvoyLog, Witness::LbLooks] {
            claim(&mut items, witness, 103);
            claim(&mut items, witness, 103);
        }
        assert_eq!((items.cuts(), items.iter().count()), (2, 3));
        assert!(items.iter().filter(|item| item.is_cut()).all(|item| item.cause == Cause::LbFlush));
        // One more than there are ends for.
        claim(&mut items, Witness::LbLog, 103);
        assert_eq!((items.cuts(), items.iter().count()), (3, 4));
    }

    /// Exercises what is uncertain, so that an exact account settles it, and an unplaced cut keeps it open.
    #[test]
    fn accounts() {
        let mut items = Items::of(vec![of_capture(100, None, false)]);
        items.add_unplaced(200, 2);
        assert_eq!((items.cuts(), items.facts().len()), (0, 2));
        items.nothing_else();
        assert!(items.iter().all(|item| item.sure && item.proof.is_none()));
    }

    /// Exercises streams that were reset at one instant, so that they are one line with their number.
    #[test]
    fn equal_ones() {
        let stream = Item::told(100, Ending::StreamReset, Cause::LbFlush);
        let facts = Items::of(vec![stream.clone(), stream]).facts();
        assert!(matches!(&facts[..], [Timed { fact: Fact::TcpTeardown(End { count: 2, .. }), .. }]));
    }
}
