//! What the observer wants of the kernel programs.

use std::{collections::BTreeMap, fmt};

use gt_common::{
    connection::{CutKey, HcState, Lane},
    counters::Losses,
    owner::Slot,
};

use crate::probes::{ProbeError, maps::Maps};

/// The kernel programs' maps, as far as the observer goes.
pub trait Kernel: fmt::Debug + Send + Sync {
    /// All cuts and RSTs during requests in flight, by what they are counted by.
    fn cuts(&self) -> Result<BTreeMap<CutKey, u64>, ProbeError>;

    /// What was lost of connections, or never came to be, on the way here.
    fn losses(&self) -> Result<Losses, ProbeError>;

    /// Connections of users that these slots have: established, and closing.
    fn users(&self, slots: &[Slot]) -> Result<(u64, u64), ProbeError>;

    /// The state of a pod's health sidecar, which teardowns keep from then on.
    fn set_hc(&self, pod: Slot, state: HcState) -> Result<(), ProbeError>;
}

impl Kernel for Maps {
    fn cuts(&self) -> Result<BTreeMap<CutKey, u64>, ProbeError> {
        self.cuts()
    }

    fn losses(&self) -> Result<Losses, ProbeError> {
        self.losses()
    }

    fn users(&self, slots: &[Slot]) -> Result<(u64, u64), ProbeError> {
        let (mut active, mut closing) = (0, 0);
        for slot in slots {
            let counters = self.counters(*slot)?;
            for (_, data) in Lane::ALL.iter().zip(&counters.lanes).filter(|(lane, _)| **lane == Lane::Data) {
                active += (data.opened + data.adopted).saturating_sub(data.left);
                closing += data.left.saturating_sub(data.closed);
            }
        }
        Ok((active, closing))
    }

    fn set_hc(&self, pod: Slot, state: HcState) -> Result<(), ProbeError> {
        self.set_hc(pod, state)
    }
}
