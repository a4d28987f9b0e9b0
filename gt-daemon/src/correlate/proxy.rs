//! What the proxy's counters say of connections that ended. Pure: looks and teardowns in, a word on each teardown out.
//!
//! Envoy counts a connection that ends with a request in flight (`downstream_cx_destroy_{remote,local}_active_rq`), then
//! each of its requests (`downstream_rq_rx_reset`, where those that Envoy resets itself are counted too, after
//! `downstream_rq_tx_reset`), and last the connection itself (`downstream_cx_destroy`, in the
//! destructor of its connection manager). So at a look where as many connections are destroyed as the kernel saw end,
//! what they cut has been counted; and if the next look finds the counts of cuts unchanged, none was missed because the
//! rows of one answer are read one after the other. Then, and only then, the word is exact: so many were cut, and the
//! others were not.
//!
//! Where the numbers of connections never fit (listeners that are not HTTP, other programs that serve users, a teardown
//! that was not seen), a cut that is counted is still a cut, and nothing is said of the rest. Nor is it where the proxy ends
//! connections that are no users' (of health checks, or from within the pod): with some of these and some of those the
//! numbers fit by chance.

use std::collections::VecDeque;

use super::torn::{Ending, Id, Torn};
use crate::envoy::sample::Sample;

/// How long a teardown waits for an exact word. Envoy keeps a connection that it closes for up to a second
/// (`delayed_close_timeout`).
const PATIENCE_NS: u64 = 2_500_000_000;

/// Whatever ended this long before a look is in its counts; longer than Envoy keeps a connection that it closes.
const CALM_NS: u64 = 1_500_000_000;

/// For so long after the proxy ended connections that are not the users' no word is exact: one of them may make the numbers
/// fit while a user's is missing. Longer than the slowest health checks.
const OTHERS_NS: u64 = 600_000_000_000;

/// Teardowns without a word at most, and the age of the oldest.
const MOST: usize = 8192;
const OLDEST_NS: u64 = 30_000_000_000;

/// Looks that wait for the kernel's events up to their end.
const MOST_LOOKS: usize = 64;

/// The word on one teardown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// A request was in flight.
    Yes,
    /// None was.
    No,
    /// The counters do not tell.
    Unknown,
}

/// What one look decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The word on each teardown that had none; what comes after [`Proxy::give_up`] comes late.
    pub said: Vec<(Id, Said)>,
    /// Connections that were cut and that no event showed.
    pub unseen: u64,
    /// Requests that were cut and whose connection lived on, or was cut with more than one.
    pub streams: u64,
    /// Requests whose answer the proxy broke off itself, mostly because the service behind it did.
    pub own: u64,
    /// The cuts happened between these instants, `CLOCK_MONOTONIC` nanoseconds.
    pub window_ns: (u64, u64),
}

/// A teardown that has no word yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    id: Id,
    at_ns: u64,
    is_remote: bool,
    /// See [`Torn::rank`].
    rank: u8,
    /// Whether somebody waits for the word.
    waits: bool,
}

/// The counters of one look that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    epoch: u64,
    begun_ns: u64,
    ended_ns: u64,
    /// Connections that have ended; `None` where Envoy keeps no such stat.
    ended: Option<u64>,
    cuts: Cuts,
}

/// Counted since Envoy's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cuts {
    remote: u64,
    local: u64,
    /// Reset by whomever: Envoy's own resets are among them.
    requests: u64,
    /// Reset by Envoy.
    own: u64,
}

impl Cuts {
    fn since(self, earlier: Self) -> Self {
        Self {
            remote: self.remote.saturating_sub(earlier.remote),
            local: self.local.saturating_sub(earlier.local),
            requests: self.requests.saturating_sub(earlier.requests),
            own: self.own.saturating_sub(earlier.own),
        }
    }

    /// Requests beyond one for each connection with a cut: those that the peer reset, and those that Envoy did.
    fn streams(self) -> (u64, u64) {
        let all = self.requests.saturating_sub(self.remote.saturating_add(self.local));
        let own = self.own.min(all);
        (all - own, own)
    }
}

impl Point {
    /// `None` for a look at gauges only, or where what is counted as cut is not all known.
    fn of(sample: &Sample) -> Option<Self> {
        let counters = sample.counters?;
        let values = counters.values;
        let cuts = Cuts {
            remote: values.downstream_cx_destroy_remote_active_rq?,
            local: values.downstream_cx_destroy_local_active_rq?,
            requests: values.downstream_rq_rx_reset?,
            own: values.downstream_rq_tx_reset.unwrap_or(0),
        };
        Some(Self {
            epoch: sample.epoch,
            begun_ns: counters.begun.monotonic_ns,
            ended_ns: counters.ended.monotonic_ns,
            ended: values.downstream_cx_destroy,
            cuts,
        })
    }
}

/// What has been decided up to here.
#[derive(Clone, Copy, Debug)]
struct Base {
    point: Point,
    /// Whether all that had ended by then was counted by then.
    complete: bool,
}

/// One pod's proxy.
#[derive(Clone, Debug, Default)]
pub struct Proxy {
    base: Option<Base>,
    /// The look before, and whether as many connections had ended as the kernel saw.
    last: Option<(Point, bool)>,
    /// Since `base`, in order of time.
    torn: VecDeque<Candidate>,
    /// Until the kernel's events up to their end are here.
    looks: VecDeque<Point>,
    /// The last teardown, or the first look.
    restless_ns: u64,
    /// When cuts were first seen that nobody has been given, and the last look that saw none.
    noticed_ns: Option<u64>,
    unnoticed_ns: u64,
    /// When more connections were last found to have ended than users'.
    others_ns: Option<u64>,
    /// What was let go without a word, the likeliest first: the proxy may count it yet.
    unsure: Vec<Candidate>,
}

impl Proxy {
    /// A teardown that the kernel saw. `waits`: somebody waits for the word.
    pub fn torn(&mut self, torn: &Torn, waits: bool) {
        self.restless_ns = self.restless_ns.max(torn.at_ns);
        let is_remote = torn.ending.is_some_and(Ending::is_remote);
        let candidate = Candidate { id: torn.id, at_ns: torn.at_ns, is_remote, rank: torn.rank(), waits };
        // Events of several CPUs may be out of order by a little.
        let place = self.torn.partition_point(|other| other.at_ns <= torn.at_ns);
        self.torn.insert(place, candidate);
        if self.torn.len() > MOST {
            self.torn.pop_front();
            self.doubt(torn.at_ns);
        }
    }

    /// Nobody waits for the words on what ended until `at_ns` any more.
    pub fn give_up(&mut self, at_ns: u64) {
        self.torn.iter_mut().filter(|torn| torn.at_ns <= at_ns).for_each(|torn| torn.waits = false);
    }

    /// Whether it has told anything at all.
    #[must_use]
    pub fn tells(&self) -> bool {
        self.base.is_some() || !self.looks.is_empty()
    }

    /// Whether another look would help at `now_ns`.
    #[must_use]
    pub fn wants(&self, now_ns: u64) -> bool {
        let unsure =
            self.base.is_some_and(|base| !base.complete) && now_ns.saturating_sub(self.restless_ns) > CALM_NS;
        unsure || self.noticed_ns.is_some() || self.torn.iter().any(|torn| torn.waits)
    }

    /// Takes a look in. One at gauges only tells nothing here.
    pub fn look(&mut self, sample: &Sample) {
        if let Some(point) = Point::of(sample) {
            self.looks.push_back(point);
            if self.looks.len() > MOST_LOOKS {
                self.looks.pop_front();
            }
        }
    }

    /// All events of the kernel up to `until_ns` are here: judges the looks that ended before.
    pub fn decide(&mut self, until_ns: u64) -> Vec<Settled> {
        let mut settled = Vec::new();
        while let Some(point) = self.looks.pop_front_if(|point| point.ended_ns <= until_ns) {
            match self.base {
                Some(base) if base.point.epoch == point.epoch => settled.extend(self.judge(base, point)),
                _ => settled.append(&mut self.begin(point)),
            }
        }
        settled
    }

    fn judge(&mut self, base: Base, point: Point) -> Option<Settled> {
        let last = self.last.take();
        if last.is_some_and(|(last, _)| base.complete && self.has_others(last)) {
            self.others_ns = Some(point.begun_ns);
        }
        // An event that was late may have ended before the look, and the proxy not have counted it.
        if let Some((last, true)) = last
            && last.cuts == point.cuts
            && self.fits(last)
        {
            let settled = self.settle(last, true, Said::No);
            self.unnoticed_ns = point.begun_ns;
            self.last = Some((point, self.fits(point)));
            return settled;
        }
        let fits = base.complete && self.fits(point);
        self.last = Some((point, fits));
        if point.cuts == base.point.cuts {
            self.unnoticed_ns = point.begun_ns;
        } else {
            self.noticed_ns.get_or_insert(point.begun_ns);
        }
        if fits {
            return None;
        }
        if last.is_some_and(|(last, _)| self.is_calm(last, point)) {
            // Whatever was counted late is counted now.
            return self.settle(point, true, Said::Unknown);
        }
        if self.is_overdue(point.begun_ns) {
            return self.settle(point, false, Said::Unknown);
        }
        None
    }

    /// It does not answer, and may be gone: what it has counted is given out, although nothing confirms that it was all.
    pub fn last_words(&mut self) -> Option<Settled> {
        let ((last, _), base) = self.last.zip(self.base)?;
        if last.cuts == base.point.cuts { None } else { self.settle(last, false, Said::Unknown) }
    }

    /// The first look, or the first of another process: nothing can be said of what ended before it.
    fn begin(&mut self, point: Point) -> Vec<Settled> {
        let last_words = self.last_words();
        self.base = Some(Base { point, complete: false });
        self.last = Some((point, false));
        self.restless_ns = self.restless_ns.max(point.begun_ns);
        (self.noticed_ns, self.others_ns) = (None, None);
        self.unsure.clear();
        let said: Vec<_> =
            self.take(point.begun_ns).into_iter().map(|torn| (torn.id, Said::Unknown)).collect();
        let window_ns = (point.begun_ns, point.ended_ns);
        let unsaid = (!said.is_empty()).then(|| Settled { said, window_ns, ..Settled::default() });
        last_words.into_iter().chain(unsaid).collect()
    }

    /// Something may have ended that [`Self::torn`] was not told of.
    pub fn doubt(&mut self, now_ns: u64) {
        self.restless_ns = self.restless_ns.max(now_ns);
        if let Some(base) = &mut self.base {
            base.complete = false;
        }
        if let Some((_, fits)) = &mut self.last {
            *fits = false;
        }
    }

    /// Whether more connections were destroyed since the base than the kernel saw end. Asked when late events are here too.
    fn has_others(&self, point: Point) -> bool {
        let before = self.base.and_then(|base| base.point.ended);
        let seen = self.torn.partition_point(|torn| torn.at_ns <= point.ended_ns);
        let ended = point.ended.zip(before).map(|(now, before)| now.saturating_sub(before));
        ended.is_some_and(|ended| u128::from(ended) > seen as u128)
    }

    /// Whether as many connections were destroyed since the base as the kernel saw end, none of them during the look.
    fn fits(&self, point: Point) -> bool {
        let Some(base) = self.base else { return false };
        if self.others_ns.is_some_and(|at_ns| point.begun_ns.saturating_sub(at_ns) < OTHERS_NS) {
            return false;
        }
        let (Some(before), Some(now)) = (base.point.ended, point.ended) else { return false };
        let seen = self.torn.partition_point(|torn| torn.at_ns < point.begun_ns);
        let during = self.torn.get(seen).is_some_and(|torn| torn.at_ns <= point.ended_ns);
        !during && now.checked_sub(before) == u64::try_from(seen).ok()
    }

    /// Whether two looks found the same, and no connection ended from well before the first until the second.
    fn is_calm(&self, last: Point, point: Point) -> bool {
        (last.cuts, last.ended) == (point.cuts, point.ended)
            && self.restless_ns.saturating_add(CALM_NS) < last.begun_ns
    }

    fn is_overdue(&self, now_ns: u64) -> bool {
        let waiting = self.torn.iter().find(|torn| torn.waits).map(|torn| torn.at_ns);
        let oldest = self.torn.front().map(|torn| torn.at_ns);
        let is_over =
            |since: Option<u64>, patience| since.is_some_and(|since| now_ns.saturating_sub(since) > patience);
        is_over(waiting.or(self.noticed_ns), PATIENCE_NS) || is_over(oldest, OLDEST_NS)
    }

    /// Cuts for which no end is left go to those that were let go without a word: the proxy was slow. Returns what is left.
    fn give_late(&mut self, cuts: u64, now_ns: u64, said: &mut Vec<(Id, Said)>) -> u64 {
        self.unsure.retain(|torn| now_ns.saturating_sub(torn.at_ns) < OLDEST_NS);
        let count = usize::try_from(cuts).unwrap_or(usize::MAX).min(self.unsure.len());
        said.extend(self.unsure.drain(..count).map(|torn| (torn.id, Said::Yes)));
        cuts - count as u64
    }

    /// Takes out what ended before an instant.
    fn take(&mut self, at_ns: u64) -> Vec<Candidate> {
        let count = self.torn.partition_point(|torn| torn.at_ns < at_ns);
        self.torn.drain(..count).collect()
    }

    /// Gives the cuts between the base and a look, which becomes the base, to the likeliest of what ended before it;
    /// `rest` is the word on those that are left.
    fn settle(&mut self, point: Point, complete: bool, rest: Said) -> Option<Settled> {
        let base = self.base.replace(Base { point, complete })?;
        self.noticed_ns = None;
        let mut torn = self.take(point.begun_ns);
        torn.sort_by_key(|torn| (torn.rank, torn.at_ns));
        let cuts = point.cuts.since(base.point.cuts);
        let (mut said, over) = share(cuts, &torn, rest);
        let unseen = self.give_late(over, point.begun_ns, &mut said);
        let unsaid = torn.iter().zip(&said).filter(|(_, (_, word))| *word == Said::Unknown);
        self.unsure.extend(unsaid.map(|(torn, _)| *torn));
        self.unsure.sort_by_key(|torn| (torn.rank, torn.at_ns));
        self.unsure.truncate(MOST);
        let (streams, own) = cuts.streams();
        Some(Settled {
            said,
            unseen,
            streams,
            own,
            window_ns: (self.unnoticed_ns.max(base.point.begun_ns), point.ended_ns),
        })
        .filter(|settled| {
            !settled.said.is_empty() || settled.unseen > 0 || settled.streams > 0 || settled.own > 0
        })
    }
}

/// Who closed first is not always the same to the kernel and to the proxy, so what one side has left goes to the other.
/// Returns the word on each, and how many cuts nobody is left for.
fn share(cuts: Cuts, torn: &[Candidate], rest: Said) -> (Vec<(Id, Said)>, u64) {
    let mut left = (cuts.remote, cuts.local);
    let mut said: Vec<_> = torn
        .iter()
        .map(|torn| {
            let share = if torn.is_remote { &mut left.0 } else { &mut left.1 };
            let word = if *share > 0 { Said::Yes } else { rest };
            *share = share.saturating_sub(1);
            (torn.id, word)
        })
        .collect();
    let mut over = left.0.saturating_add(left.1);
    for (_, word) in said.iter_mut().filter(|(_, word)| *word != Said::Yes) {
        if over == 0 {
            break;
        }
        over -= 1;
        *word = Said::Yes;
    }
    (said, over)
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
pub(super) mod tests;
