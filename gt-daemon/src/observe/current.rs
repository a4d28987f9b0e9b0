//! Which state a sidecar is in now, and what follows from it: pure.

use std::time::Duration;

use gt_common::connection::HcState;

use crate::{hc::states::States, poll::Pace};

/// For how long a sidecar that does not answer counts as being in the state it told last.
const STALE: Duration = Duration::from_secs(10);

/// The states possible now, of those that were told last. One that has not answered for a while (`silent_ns`), and
/// whose log is not read either, may have gone on; but not from its end: after that its process is no more.
pub(super) fn states(told: States, silent_ns: Option<u64>, reads_log: bool) -> States {
    let is_fresh = silent_ns.is_none_or(|silent| u128::from(silent) < STALE.as_nanos());
    if is_fresh || reads_log || told.is_within(States::ENDED) { told } else { States::ANY }
}

/// What is known of a pod's drain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signs {
    pub(super) hc: States,
    /// Whether Envoy drains.
    pub(super) envoy: Option<bool>,
    /// Whether the pod's deletion was asked for, or its source no longer names it.
    pub(super) ends: bool,
}

/// Fast while the pod drains.
pub(super) fn pace(signs: Signs) -> Pace {
    let is_past_open = !signs.hc.meets(States::only(HcState::Open));
    if is_past_open || signs.envoy == Some(true) || signs.ends { Pace::Fast } else { Pace::Slow }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises silence, so that an old state is not taken for today's, and the end stays the end.
    #[test]
    fn silence() {
        let second = 1_000_000_000;
        let (open, closed) = (States::only(HcState::Open), States::only(HcState::Closed));
        assert_eq!(states(open, None, false), open);
        assert_eq!(states(open, Some(9 * second), false), open);
        assert_eq!(states(open, Some(10 * second), false), States::ANY);
        assert_eq!(states(open, Some(100 * second), true), open);
        assert_eq!(states(closed, Some(100 * second), false), closed);
        assert_eq!(states(States::ENDED, Some(100 * second), false), States::ENDED);
        assert_eq!(states(States::DOWN, Some(100 * second), false), States::ANY);
    }

    /// Exercises the signs of a drain, so that any one of them makes the pace fast, and doubt none.
    #[test]
    fn paces() {
        let idle = Signs { hc: States::only(HcState::Open), envoy: Some(false), ends: false };
        assert_eq!(pace(idle), Pace::Slow);
        assert_eq!(pace(Signs { hc: States::UP, ..idle }), Pace::Slow);
        assert_eq!(pace(Signs { hc: States::ANY, envoy: None, ..idle }), Pace::Slow);
        for state in [HcState::Draining, HcState::Closing, HcState::Closed, HcState::Fault] {
            assert_eq!(pace(Signs { hc: States::only(state), ..idle }), Pace::Fast);
        }
        assert_eq!(pace(Signs { hc: States::DOWN, ..idle }), Pace::Fast);
        assert_eq!(pace(Signs { envoy: Some(true), ..idle }), Pace::Fast);
        assert_eq!(pace(Signs { ends: true, ..idle }), Pace::Fast);
    }
}
