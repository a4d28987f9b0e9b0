//! Whom to blame for an end, by all that the drain's record knows of the load balancer. Pure.
//!
//! The join judged the end when it happened, by what the health sidecar told the LB. What the LB did is known a little later: an
//! end that was taken for the client's own, or of which nobody knew, is the LB's when the LB had marked the pod DOWN, or did so
//! just then. Never the other way round.

use super::fact::{End, Fact, Source, Timed};
use crate::lb::history::{Held, History};

/// An end, and who is to blame as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blamed<'a> {
    pub(crate) ts: i64,
    pub(crate) end: &'a End,
    /// In the words of the metrics.
    pub(crate) cause: &'a str,
    /// Whether it is the client's by that word, and the LB may have been DOWN.
    pub(crate) in_doubt: bool,
}

impl Blamed<'_> {
    /// Whether a request was cut for certain, and the verdict takes it for one.
    pub(crate) fn breaks(self) -> bool {
        self.end.is_cut() && !self.is_clients() && !self.in_doubt
    }

    /// Whether the client ended it, and the LB had nothing to do with it.
    pub(crate) fn is_clients(self) -> bool {
        self.cause == "client_abort" && !self.in_doubt
    }
}

/// What is known of the LB.
#[derive(Debug, Default)]
pub(super) struct Lb {
    history: History,
    /// When it was not seen: from, to.
    unseen: Vec<(i64, i64)>,
}

impl Lb {
    /// By all facts of a drain.
    pub(super) fn of(facts: &[Timed]) -> Self {
        let mut lb = Self::default();
        for Timed { ts, fact } in facts {
            match fact {
                Fact::LbStatus { server, serving, .. } => lb.history.status(*ts, server, *serving),
                Fact::HaproxyBackendDown { server, last_up, predicted: false } => {
                    lb.history.down(*ts, server, *last_up);
                }
                // One without a length is about the whole drain.
                Fact::Gap { source: Source::Lb, length_us: 0, .. } => lb.unseen.push((i64::MIN, i64::MAX)),
                Fact::Gap { source: Source::Lb, length_us, .. } => {
                    lb.unseen.push((ts.saturating_sub(*length_us), *ts));
                }
                _ => {}
            }
        }
        lb
    }

    pub(super) fn blame<'a>(&self, ts: i64, end: &'a End) -> Blamed<'a> {
        let may_be_lbs = matches!(end.cause.as_str(), "client_abort" | "unknown")
            && matches!(end.how.as_str(), "fin_received" | "rst_received" | "stream_reset");
        let held = if may_be_lbs { self.history.at(ts) } else { Held::Untold };
        let is_unseen = || self.unseen.iter().any(|(from, to)| (*from..=*to).contains(&ts));
        Blamed {
            ts,
            end,
            cause: if held == Held::Down { "lb_flush" } else { &end.cause },
            in_doubt: may_be_lbs
                && end.is_clients()
                && (held == Held::Unclear || held != Held::Down && is_unseen()),
        }
    }
}

#[cfg(test)]
#[path = "blame_tests.rs"]
mod tests;
