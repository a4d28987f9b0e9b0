//! A verdict on one end: what was cut, by whom, and how that is known.

use std::sync::Arc;

use super::{
    cause::Cause,
    counted::{CutLabels, HcLabel, ResetLabels},
    torn::{Direction, Ending, Id, Proof, Torn},
};
use crate::{hc::states::States, pods::owners::Name};

/// What was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The pod's UID.
    pub uid: Arc<str>,
    /// The pod, with the container where that is known.
    pub name: Name,
    /// When it happened, `CLOCK_MONOTONIC` nanoseconds; of what only the proxy tells, when it was told at the latest.
    pub at_ns: u64,
    pub ending: Ending,
    /// `None` for no cut.
    pub proof: Option<Proof>,
    /// Whether it is certain: a cut that is proved, or an end of which the socket or the proxy shows that nothing was cut.
    pub sure: bool,
    /// Whether the same end has been judged before, and more is known now.
    pub again: bool,
    pub cause: Cause,
    pub hc: HcLabel,
    /// Connections, or streams; one unless only the proxy tells.
    pub count: u64,
    pub rst: Option<Direction>,
    /// Requests in flight at the proxy's last answer before its process ended, and how old that was, in nanoseconds.
    pub last_told: Option<(u64, u64)>,
    /// What the kernel saw; `None` where only the proxy tells.
    pub torn: Option<Torn>,
}

impl Judged {
    /// Cuts of which no event told.
    pub(super) fn without_event(uid: &Arc<str>, name: &Name, at_ns: u64, cut: CutLabels, count: u64) -> Self {
        let CutLabels { ending, cause, hc, proof } = cut;
        Self {
            uid: Arc::clone(uid),
            name: name.clone(),
            at_ns,
            ending,
            proof: Some(proof),
            sure: proof != Proof::Possible,
            again: false,
            cause,
            hc,
            count,
            rst: None,
            last_told: None,
            torn: None,
        }
    }

    /// What it is counted by, if it is a cut.
    #[must_use]
    pub fn labels(&self) -> Option<CutLabels> {
        let Self { ending, cause, hc, .. } = *self;
        self.proof.map(|proof| CutLabels { ending, cause, hc, proof })
    }

    /// What its RST is counted by, if it is a cut that was reset.
    #[must_use]
    pub fn reset_labels(&self) -> Option<ResetLabels> {
        let direction = self.rst?;
        self.proof.map(|proof| ResetLabels { direction, hc: self.hc, proof })
    }
}

/// The state that stands for those that are possible.
#[must_use]
pub fn hc_label(has_hc: bool, states: States) -> HcLabel {
    has_hc.then(|| states.state())
}

/// The first RST of a connection that was judged before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateReset {
    /// The pod's UID.
    pub uid: Arc<str>,
    pub id: Id,
    pub direction: Direction,
    /// Whether the connection was judged a cut.
    pub in_flight: bool,
    /// `CLOCK_MONOTONIC` nanoseconds.
    pub at_ns: u64,
}

/// What is remembered of a connection that was judged, for an RST or a word of the proxy that comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    pub torn: Torn,
    pub proof: Option<Proof>,
    pub sure: bool,
    pub hc: HcLabel,
}
