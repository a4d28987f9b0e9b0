//! Per-CPU counts of an owner, and of what these programs could not do.

use aya_ebpf::{macros::map, maps::PerCpuArray};
use gt_common::{
    counters::{Counters, LaneCounters, Losses},
    owner::{DEFAULT_SLOTS, Slot},
};

use crate::atomic::{decrement, increment};

#[map]
static COUNTERS: PerCpuArray<Counters> = PerCpuArray::with_max_entries(DEFAULT_SLOTS, 0);

#[map]
static LOSSES: PerCpuArray<Losses> = PerCpuArray::with_max_entries(1, 0);

/// Adds one to a count of this CPU's of `slot` on a lane (a [`Lane`](gt_common::connection::Lane) as its number).
#[inline(always)]
pub(crate) fn count(slot: Slot, lane: u8, which: impl FnOnce(&mut LaneCounters) -> &mut u64) {
    if let Some(counters) = COUNTERS.get_ptr_mut(slot)
        && let Some(lane) = (unsafe { &mut *counters }).lanes.get_mut(usize::from(lane))
    {
        increment(which(lane));
    }
}

/// Takes back one that this CPU has counted.
#[inline(always)]
pub(crate) fn uncount(slot: Slot, lane: u8, which: impl FnOnce(&mut LaneCounters) -> &mut u64) {
    if let Some(counters) = COUNTERS.get_ptr_mut(slot)
        && let Some(lane) = (unsafe { &mut *counters }).lanes.get_mut(usize::from(lane))
    {
        decrement(which(lane));
    }
}

/// Adds one to a count of this CPU's losses.
#[inline(always)]
pub(crate) fn lost(which: impl FnOnce(&mut Losses) -> &mut u64) {
    if let Some(losses) = LOSSES.get_ptr_mut(0) {
        increment(which(unsafe { &mut *losses }));
    }
}
