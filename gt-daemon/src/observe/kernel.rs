//! What the observer wants of the kernel programs.

use std::{collections::BTreeMap, fmt};

use gt_common::{
    connection::{CutKey, HcState, Lane},
    counters::{Counters, Losses},
    owner::Slot,
};

use crate::probes::{ProbeError, maps::Maps};

/// The kernel programs' maps, as far as the observer goes.
pub trait Kernel: fmt::Debug + Send + Sync {
    /// All cuts and RSTs during requests in flight, by what they are counted by.
    fn cuts(&self) -> Result<BTreeMap<CutKey, u64>, ProbeError>;

    /// What was lost of connections, or never came to be, on the way here.
    fn losses(&self) -> Result<Losses, ProbeError>;

    /// What these slots have counted together.
    fn counters(&self, slots: &[Slot]) -> Result<Counters, ProbeError>;

    /// Connections of users that these slots have: established, and closing.
    fn users(&self, slots: &[Slot]) -> Result<(u64, u64), ProbeError> {
        let counters = self.counters(slots)?;
        Ok(open(&counters, Lane::Data))
    }

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

    fn counters(&self, slots: &[Slot]) -> Result<Counters, ProbeError> {
        let mut sum = Counters::default();
        for slot in slots {
            sum.add(&self.counters(*slot)?);
        }
        Ok(sum)
    }

    fn set_hc(&self, pod: Slot, state: HcState) -> Result<(), ProbeError> {
        self.set_hc(pod, state)
    }
}

/// Connections of a lane: established, and closing.
pub(super) fn open(counters: &Counters, lane: Lane) -> (u64, u64) {
    let all = Lane::ALL.iter().zip(&counters.lanes).filter(|(one, _)| **one == lane);
    all.fold((0, 0), |(active, closing), (_, count)| {
        let opened = count.opened + count.adopted;
        (active + opened.saturating_sub(count.left), closing + count.left.saturating_sub(count.closed))
    })
}
