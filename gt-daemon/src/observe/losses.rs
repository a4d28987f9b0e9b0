//! What the kernel's side has lost since the last look, in words. Pure.

use gt_common::counters::Losses;

/// What was lost up to the last look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lost {
    /// `None` before the first look.
    seen: Option<Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// `None` when that cannot be read.
    kernel: Option<Losses>,
    missed: Missed,
}

/// What did not come through on its way to the observer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missed {
    /// Events that found no room.
    pub(super) unheard: u64,
    /// Records of the ring that were no events.
    pub(super) undecodable: u64,
    /// Runs of the kernel programs that the kernel skipped, where it tells.
    pub(super) skipped: u64,
}

impl Lost {
    /// `None` when nothing has changed; else what was lost, which at the first look is not known to be anything.
    pub(super) fn look(&mut self, kernel: Option<Losses>, missed: Missed) -> Option<Vec<&'static str>> {
        let now = Seen { kernel, missed };
        let before = self.seen.replace(now);
        // A cut that finds no place among the counters has its event all the same.
        let cuts_aside =
            |seen: Seen| Seen { kernel: seen.kernel.map(|l| Losses { cuts_full: 0, ..l }), ..seen };
        if before.map(cuts_aside) == Some(cuts_aside(now)) {
            return None;
        }
        Some(before.map_or(Vec::new(), |before| words(before, now)))
    }
}

fn words(before: Seen, now: Seen) -> Vec<&'static str> {
    let mut words = Vec::new();
    match (before.kernel, now.kernel) {
        (Some(before), Some(now)) => {
            let counts = [
                (before.ring_full, now.ring_full, "the ring of events was full"),
                (before.kernel_read, now.kernel_read, "kernel memory could not be read"),
                (before.table_full, now.table_full, "the table of connections was full"),
                (before.unjudged, now.unjudged, "a connection ended without an event that could be judged"),
            ];
            words.extend(counts.into_iter().filter(|(before, now, _)| before != now).map(|(_, _, why)| why));
        }
        (None, None) => {}
        _ => words.push("the kernel's counts of what was lost could not be read"),
    }
    let (before, now) = (before.missed, now.missed);
    let counts = [
        (before.unheard, now.unheard, "gt's own queue of events was full"),
        (before.undecodable, now.undecodable, "the ring of events held something that was none"),
        (before.skipped, now.skipped, "the kernel skipped a program"),
    ];
    words.extend(counts.into_iter().filter(|(before, now, _)| before != now).map(|(_, _, why)| why));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises looks one after the other, so that each loss is told once, by its counter, and the first look tells none.
    #[test]
    fn looks() {
        let mut lost = Lost::default();
        let losses = Losses { ring_full: 3, ..Losses::default() };
        let one = Missed { unheard: 1, ..Missed::default() };
        assert_eq!(lost.look(Some(losses), one), Some(vec![]));
        assert_eq!(lost.look(Some(losses), one), None);
        assert_eq!(lost.look(Some(Losses { cuts_full: 1, ..losses }), one), None);
        let more = Losses { ring_full: 4, unjudged: 1, ..losses };
        let missed = Missed { unheard: 2, undecodable: 0, skipped: 3 };
        assert_eq!(lost.look(Some(more), missed).unwrap().len(), 4);
        assert_eq!(
            lost.look(None, missed).unwrap(),
            ["the kernel's counts of what was lost could not be read"]
        );
        assert_eq!(lost.look(None, missed), None);
        assert_eq!(lost.look(Some(more), missed).unwrap().len(), 1);
        let missed = Missed { undecodable: 1, ..missed };
        assert_eq!(
            lost.look(Some(more), missed).unwrap(),
            ["the ring of events held something that was none"]
        );
    }
}
