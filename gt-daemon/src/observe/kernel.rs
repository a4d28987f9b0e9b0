//! What the observer wants of the kernel programs.

use std::{collections::BTreeMap, fmt};

use gt_common::{
    connection::{CutKey, HcState},
    owner::Slot,
};

use crate::probes::{ProbeError, maps::Maps};

/// The kernel programs' maps, as far as the observer goes.
pub trait Kernel: fmt::Debug + Send + Sync {
    /// All cuts and RSTs during requests in flight, by what they are counted by.
    fn cuts(&self) -> Result<BTreeMap<CutKey, u64>, ProbeError>;

    /// How many events of connections were lost, or never came to be, on the way here.
    fn lost(&self) -> Result<u64, ProbeError>;

    /// The state of a pod's health sidecar, which teardowns keep from then on.
    fn set_hc(&self, pod: Slot, state: HcState) -> Result<(), ProbeError>;
}

impl Kernel for Maps {
    fn cuts(&self) -> Result<BTreeMap<CutKey, u64>, ProbeError> {
        self.cuts()
    }

    fn lost(&self) -> Result<u64, ProbeError> {
        let losses = self.losses()?;
        Ok(losses.ring_full + losses.kernel_read + losses.table_full + losses.unjudged)
    }

    fn set_hc(&self, pod: Slot, state: HcState) -> Result<(), ProbeError> {
        self.set_hc(pod, state)
    }
}
