//! Who is to blame for a cut. Pure.

use super::torn::Ending;
use crate::{hc::states::States, lb::history::Held};

/// Why a request was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The peer ended it while the LB was told 200, and was not known to be DOWN.
    ClientAbort,
    /// The peer ended it after the LB was told 503, or had marked the pod DOWN.
    LbFlush,
    /// The pod's process ended.
    Killed,
    /// The pod's process ended the connection, and lived on.
    Proxy,
    Unknown,
}

impl Cause {
    /// The word in metrics and records.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::ClientAbort => "client_abort",
            Self::LbFlush => "lb_flush",
            Self::Killed => "killed",
            Self::Proxy => "proxy",
            Self::Unknown => "unknown",
        }
    }
}

/// The cause of a cut: how the connection ended, whether the pod's process was on its way out, and which states hc may
/// have been in, and what the LB did, as far as that is known by now: its word comes later than the end, and the record of a
/// drain has it all (`drain/blame.rs`). An LB that had not asked since hc turned to 503 cuts
/// nothing, so a client that leaves just then is taken for the LB, never the other way round.
#[must_use]
pub fn cause(ending: Ending, exiting: bool, hc: States, lb: Held) -> Cause {
    match ending {
        Ending::FinReceived | Ending::RstReceived | Ending::StreamReset if lb == Held::Down => Cause::LbFlush,
        Ending::FinReceived | Ending::RstReceived | Ending::StreamReset => match hc.shown_up() {
            Some(true) => Cause::ClientAbort,
            Some(false) => Cause::LbFlush,
            None => Cause::Unknown,
        },
        Ending::FinSent | Ending::RstSent if exiting => Cause::Killed,
        Ending::FinSent | Ending::RstSent => Cause::Proxy,
        Ending::Timeout | Ending::Unseen => Cause::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use gt_common::connection::HcState;

    use super::*;

    /// Exercises each ending with each state, so that nobody is blamed for what is not known.
    #[test]
    fn causes() {
        for ending in [Ending::FinReceived, Ending::RstReceived, Ending::StreamReset] {
            for (state, expected) in [
                (HcState::Open, Cause::ClientAbort),
                (HcState::Draining, Cause::ClientAbort),
                (HcState::Closing, Cause::LbFlush),
                (HcState::Closed, Cause::LbFlush),
                (HcState::Fault, Cause::LbFlush),
                (HcState::Unknown, Cause::Unknown),
            ] {
                for lb in [Held::Untold, Held::Served, Held::Unclear] {
                    let found = cause(ending, false, States::only(state), lb);
                    assert_eq!(found, expected, "{ending:?} {state:?} {lb:?}");
                }
                assert_eq!(cause(ending, false, States::only(state), Held::Down), Cause::LbFlush);
            }
        }
        for ending in [Ending::FinSent, Ending::RstSent] {
            assert_eq!(cause(ending, true, States::UP, Held::Down), Cause::Killed);
            assert_eq!(cause(ending, false, States::DOWN, Held::Down), Cause::Proxy);
        }
        for ending in [Ending::Timeout, Ending::Unseen] {
            assert_eq!(cause(ending, false, States::UP, Held::Down), Cause::Unknown);
        }
    }
}
