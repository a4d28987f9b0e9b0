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
    /// Whether a capture of the pod shows it.
    pub captured: bool,
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
            captured: false,
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
    /// When the drain began, if one did.
    begun: Option<i64>,
    all: Vec<(Item, [bool; 3])>,
}

impl Items {
    /// Of captures, in a drain that began then.
    #[must_use]
    pub fn of(items: Vec<Item>, begun: Option<i64>) -> Self {
        Self { begun, all: items.into_iter().map(|item| (item, [false; 3])).collect() }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Item> {
        self.all.iter().map(|(item, _)| item)
    }

    /// A witness tells of a cut between two instants, most likely at the one of `told`. `wanted` says which ends may be meant.
    /// Where none of them is that cut, `told` is added. A cut in the drain is none that was before it: only looks at statistics,
    /// which may have been on both sides of the beginning, leave that open, and then no end that a client made is meant.
    pub fn claim(
        &mut self,
        witness: Witness,
        (from, until): (i64, i64),
        told: Item,
        wanted: impl Fn(&Item) -> bool,
    ) {
        let place = witness as usize;
        let begun = self.begun;
        let is_in = |ts: i64| begun.is_none_or(|begun| ts >= begun);
        let is_told_in = is_in(told.ts);
        let is_early =
            |item: &Item| witness == Witness::LbLooks && is_told_in && item.cause != Cause::ClientAbort;
        let has_side = |item: &Item| is_in(item.ts) == is_told_in || is_early(item);
        let can_be = |(item, claimed): &&mut (Item, [bool; 3])| {
            item.may_be_cut()
                && !claimed[place]
                && (from..=until).contains(&item.ts)
                && has_side(item)
                && wanted(item)
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
        count(self.iter().filter(|item| item.is_cut()))
    }

    /// Cuts of the drain that are certain and no client's.
    #[must_use]
    pub fn cuts_of_drain(&self) -> u64 {
        count(
            self.iter().filter(|item| item.is_cut() && self.is_in(item) && item.cause != Cause::ClientAbort),
        )
    }

    /// Ends of the drain with a request that a client seems to have made, and of which no witness says who did.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        let is_one = |item: &&Item| item.is_cut() && item.cause == Cause::ClientAbort && !item.blamed;
        count(self.iter().filter(|item| self.is_in(item)).filter(is_one))
    }

    /// Cuts of the drain that Envoy met for certain: those at its own connections, in its log, or made by another than a client.
    #[must_use]
    pub fn met_by_envoy(&self) -> u64 {
        let known = self.all.iter().filter(|(item, claimed)| {
            let is_met =
                item.captured || claimed[Witness::EnvoyLog as usize] || item.cause != Cause::ClientAbort;
            item.is_cut() && self.is_in(item) && is_met
        });
        count(known.map(|(item, _)| item))
    }

    fn is_in(&self, item: &Item) -> bool {
        self.begun.is_none_or(|begun| item.ts >= begun)
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

fn count<'a>(items: impl Iterator<Item = &'a Item>) -> u64 {
    items.map(|item| item.count).sum()
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
        let mut items = Items::of(
            vec![
                of_capture(100, Some(Proof::Socket), true),
                of_capture(101, None, false),
                of_capture(102, None, true),
            ],
            None,
        );
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
        let mut items = Items::of(vec![of_capture(100, None, false)], None);
        items.add_unplaced(200, 2);
        assert_eq!((items.cuts(), items.facts().len()), (0, 2));
        items.nothing_else();
        assert!(items.iter().all(|item| item.sure && item.proof.is_none()));
    }

    /// Exercises streams that were reset at one instant, so that they are one line with their number.
    #[test]
    fn equal_ones() {
        let stream = Item::told(100, Ending::StreamReset, Cause::LbFlush);
        let facts = Items::of(vec![stream.clone(), stream], None).facts();
        assert!(matches!(&facts[..], [Timed { fact: Fact::TcpTeardown(End { count: 2, .. }), .. }]));
    }

    /// Exercises a client's end just before a drain and cuts in it, so that each witness's cut stays the drain's, and Envoy's
    /// count is not explained by what Envoy did not meet.
    #[test]
    fn both_sides() {
        let abort = Item { cause: Cause::ClientAbort, ..of_capture(95, Some(Proof::Socket), true) };
        for witness in [Witness::LbLog, Witness::EnvoyLog, Witness::LbLooks] {
            let mut items = Items::of(vec![abort.clone()], Some(100));
            claim(&mut items, witness, 101);
            assert_eq!((items.cuts(), items.cuts_of_drain(), items.met_by_envoy()), (2, 1, 1), "{witness:?}");
        }
        let told =
            |ts: i64, captured: bool| Item { captured, ..Item::told(ts, Ending::Unseen, Cause::ClientAbort) };
        let items = Items::of(vec![told(90, true), told(110, true), told(120, false)], Some(100));
        assert_eq!((items.cuts(), items.cuts_of_drain(), items.met_by_envoy()), (3, 0, 1));
    }
}
