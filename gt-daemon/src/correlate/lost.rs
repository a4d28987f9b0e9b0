//! Cuts that the kernel counted and whose events never came: the ring was full. They are found by comparing the
//! kernel's counts with the events.

use std::collections::HashMap;

use gt_common::{
    connection::{CutKey, Evidence, How},
    owner::Slot,
};

use super::torn::{Direction, Torn};
use crate::probes::decode::{Known, Observed};

/// The kernel's counts against the events, by what the kernel counts by.
#[derive(Clone, Debug, Default)]
pub struct Lost {
    keys: HashMap<CutKey, Key>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Key {
    /// Events of it, and events that were found missing.
    accounted: u64,
    /// The kernel's count as of the last look.
    counted: u64,
}

impl Lost {
    /// The event of a teardown: the kernel counts it when it is a cut. One that is pending is counted when it is known
    /// what it was, see [`Self::settled`].
    pub fn torn(&mut self, torn: &Torn) {
        if torn.known.how != How::Pending {
            self.settled(torn, torn.known.how);
        }
        if let (Some(direction), true) = (torn.rst, torn.known.rst_counted) {
            self.reset(&torn.event, direction);
        }
    }

    /// A teardown that was this.
    pub fn settled(&mut self, torn: &Torn, how: How) {
        if torn.known.evidence != Evidence::None {
            self.account(CutKey { how: how as u8, ..key(torn.slot, &torn.known) });
        }
    }

    /// An RST that the kernel counted for a cut; once a connection.
    pub fn reset(&mut self, event: &Observed, direction: Direction) {
        if let Some(known) = event.connection {
            let rst = match direction {
                Direction::Sent => 1,
                Direction::Received => 2,
            };
            self.account(CutKey { rst, ..key(event.slot, &known) });
        }
    }

    fn account(&mut self, key: CutKey) {
        self.keys.entry(key).or_default().accounted += 1;
    }

    /// Compares the events with the kernel's counts as of the look *before*: what was counted then and has no event by
    /// now has lost it. Returns how many of each.
    pub fn compare(&mut self, counts: &[(CutKey, u64)]) -> Vec<(CutKey, u64)> {
        let mut lost = Vec::new();
        for (key, count) in counts {
            let known = self.keys.entry(*key).or_default();
            let missing = known.counted.saturating_sub(known.accounted);
            if missing > 0 {
                known.accounted += missing;
                lost.push((*key, missing));
            }
            known.counted = *count;
        }
        lost
    }

    /// A slot got another owner, and its counts begin anew.
    pub fn forget(&mut self, slot: Slot) {
        self.keys.retain(|key, _| key.slot != slot);
    }
}

fn key(slot: Slot, known: &Known) -> CutKey {
    CutKey { slot, how: 0, rst: 0, evidence: known.evidence as u8, hc: known.hc as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: CutKey = CutKey { slot: 3, how: 1, rst: 0, evidence: 1, hc: 0 };

    /// Exercises events that are late and events that never come, so that only the latter are told, and once.
    #[test]
    fn late_and_lost() {
        let mut lost = Lost::default();
        lost.account(KEY);
        assert!(lost.compare(&[(KEY, 3)]).is_empty());
        lost.account(KEY);
        assert_eq!(lost.compare(&[(KEY, 3)]), [(KEY, 1)]);
        assert!(lost.compare(&[(KEY, 3)]).is_empty());
        assert!(lost.compare(&[(KEY, 4)]).is_empty());
        lost.account(KEY);
        assert!(lost.compare(&[(KEY, 4)]).is_empty());
    }

    /// Exercises a slot that is used again, so that the new owner's cuts are not taken for accounted.
    #[test]
    fn slots_begin_anew() {
        let mut lost = Lost::default();
        for _ in 0..5 {
            lost.account(KEY);
        }
        lost.forget(KEY.slot);
        assert!(lost.compare(&[(KEY, 1)]).is_empty());
        assert_eq!(lost.compare(&[(KEY, 1)]), [(KEY, 1)]);
    }
}
