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
    /// Events that found no room on their way to the observer.
    unheard: u64,
}

impl Lost {
    /// `None` when nothing has changed; else what was lost, which at the first look is not known to be anything.
    pub(super) fn look(&mut self, kernel: Option<Losses>, unheard: u64) -> Option<Vec<&'static str>> {
        let now = Seen { kernel, unheard };
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
    if before.unheard != now.unheard {
        words.push("gt's own queue of events was full");
    }
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
        assert_eq!(lost.look(Some(losses), 1), Some(vec![]));
        assert_eq!(lost.look(Some(losses), 1), None);
        assert_eq!(lost.look(Some(Losses { cuts_full: 1, ..losses }), 1), None);
        let more = Losses { ring_full: 4, unjudged: 1, ..losses };
        assert_eq!(lost.look(Some(more), 2).unwrap().len(), 3);
        assert_eq!(lost.look(None, 2).unwrap(), ["the kernel's counts of what was lost could not be read"]);
        assert_eq!(lost.look(None, 2), None);
        assert_eq!(lost.look(Some(more), 2).unwrap().len(), 1);
    }
}
