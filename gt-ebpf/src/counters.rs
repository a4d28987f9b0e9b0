//! Per-CPU counts of an owner, and of what these programs could not do.

use aya_ebpf::{macros::map, maps::PerCpuArray};
use gt_common::{
    counters::{Counters, Losses},
    owner::{DEFAULT_SLOTS, Slot},
};

#[map]
static COUNTERS: PerCpuArray<Counters> = PerCpuArray::with_max_entries(DEFAULT_SLOTS, 0);

#[map]
static LOSSES: PerCpuArray<Losses> = PerCpuArray::with_max_entries(1, 0);

/// Changes this CPU's counts of `slot`.
#[inline(always)]
pub(crate) fn count(slot: Slot, change: impl FnOnce(&mut Counters)) {
    if let Some(counters) = COUNTERS.get_ptr_mut(slot) {
        change(unsafe { &mut *counters });
    }
}

/// Changes this CPU's losses.
#[inline(always)]
pub(crate) fn lost(change: impl FnOnce(&mut Losses)) {
    if let Some(losses) = LOSSES.get_ptr_mut(0) {
        change(unsafe { &mut *losses });
    }
}
