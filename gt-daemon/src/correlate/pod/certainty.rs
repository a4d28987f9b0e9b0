//! What proves that a request was in flight at an end, and what that none was.

use gt_common::connection::{Evidence, Phase, Protocol};

use super::{GAUGE_AGE_NS, Gauge, Pod};
use crate::correlate::{
    proxy::Said,
    torn::{Ending, Id, Proof, Torn},
};

/// How many looks before an end may tell that the proxy was idle: with each further one it gets likelier that its connections
/// and the users' are as many by chance.
const LAST_LOOKS: usize = 3;

impl Pod {
    /// What proves that a request was in flight, if anything.
    pub(super) fn proof(&self, torn: &Torn, said: Option<Said>, told: &Told) -> Option<Proof> {
        let socket = Proof::of(torn.known.evidence);
        match said {
            Some(Said::Yes) => Some(Proof::L7),
            // What the proxy has not read it cannot count.
            Some(Said::No) if torn.known.phase == Phase::Unread => socket,
            Some(Said::No) => None,
            Some(Said::Unknown) | None if self.nothing_since(torn) => None,
            Some(Said::Unknown) | None if socket.is_none() && torn.known.exiting => {
                // The process did not end its answer by its own decision.
                let unfinished = matches!(torn.known.phase, Phase::Streaming | Phase::Sending);
                (unfinished || told.shares.contains(&torn.id)).then_some(Proof::Possible)
            }
            Some(Said::Unknown) | None => socket,
        }
    }

    /// Whether the proxy had nothing in flight when it was asked before an end, the connection was one of its own by then, and
    /// has brought nothing since its counters had been read by then: a stream that was reset in between is neither in flight
    /// nor counted. Whatever ended the connection, no request was cut: nor is an answer on its way, as far as the socket
    /// shows. One of the last looks will do: the very last may have been answered while the proxy was closing its connections.
    /// One that has never brought anything has no request.
    pub(super) fn nothing_since(&self, torn: &Torn) -> bool {
        let known = &torn.known;
        let is_quiet = matches!(known.phase, Phase::Idle | Phase::Streaming | Phase::Unknown)
            && (known.unread, known.unsent, known.unacked) == (0, 0, 0);
        if is_quiet && !known.adopted && known.received == 0 {
            return true;
        }
        let read_ago_ns = known.since_read.map(|jiffies| {
            // A jiffy may have begun just before it is counted.
            u64::from(jiffies.saturating_sub(1)).saturating_mul(1_000_000_000) / u64::from(self.hz.max(1))
        });
        let proves = |gauge: &Gauge| {
            let counted_age_ns = torn.at_ns.saturating_sub(gauge.counted_ns.min(gauge.at_ns));
            gauge.active == 0
                && gauge.holds_all
                && known.since_ns <= gauge.at_ns
                && read_ago_ns.is_some_and(|ago| ago > counted_age_ns)
        };
        let before = self.gauges.iter().rev().filter(|gauge| gauge.at_ns <= torn.at_ns);
        is_quiet && before.take(LAST_LOOKS).any(proves)
    }

    /// A proxy that was killed told shortly before how many requests it held: so many of the connections that ended with
    /// it were cut, and those of which the socket says nothing make up for what is missing.
    pub(super) fn dead_proxys_share(&self, now_ns: u64) -> Told {
        let mut dying: Vec<_> =
            self.held.iter().map(|held| &held.torn).filter(|torn| torn.known.exiting).collect();
        let Some(first) = dying.iter().map(|torn| torn.at_ns).min() else { return Told::default() };
        let last = self.gauges.iter().rev().find(|gauge| gauge.at_ns <= first);
        let Some(Gauge { at_ns, active, .. }) = last.copied() else { return Told::default() };
        let age = first.saturating_sub(at_ns);
        if age > GAUGE_AGE_NS || now_ns < first {
            return Told::default();
        }
        dying.sort_by_key(|torn| (torn.rank(), torn.at_ns));
        let shares =
            dying.iter().take(usize::try_from(active).unwrap_or(usize::MAX)).map(|torn| torn.id).collect();
        Told { active: Some((active, age)), shares }
    }
}

/// What a proxy told before it died.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// Requests in flight, and the age of that, nanoseconds.
    pub(super) active: Option<(u64, u64)>,
    /// The connections they were most likely on.
    shares: Vec<Id>,
}

/// Whether the socket alone shows that no request was cut: the order of reads and writes tells that for HTTP/1 only, and for
/// a connection that has brought nothing. What the pod has written before its FIN is still delivered.
pub(super) fn shows_nothing(torn: &Torn) -> bool {
    let tells = matches!(torn.known.protocol, Protocol::Http1 | Protocol::Unread);
    let is_answered =
        torn.ending == Some(Ending::FinSent) && torn.known.phase == Phase::Sending && !torn.known.exiting;
    tells && torn.known.evidence == Evidence::None && (torn.known.phase == Phase::Idle || is_answered)
}
