//! Addition that nothing can interrupt.
//!
//! Even a per-CPU counter needs it: a program that runs for a system call can be interrupted between load and
//! store by the same program in softirq on the same CPU, and one of the two counts would be lost.

use core::arch::asm;

/// Takes one back.
#[inline(always)]
pub(crate) fn decrement(counter: &mut u64) {
    unsafe { asm!("lock *(u64 *)({0} + 0) += {1}", in(reg) counter, in(reg) u64::MAX) };
}

/// Adds one. `core`'s atomics do not exist for this target; the instruction is BPF_XADD, known to all kernels.
#[inline(always)]
pub(crate) fn increment(counter: &mut u64) {
    unsafe { asm!("lock *(u64 *)({0} + 0) += {1}", in(reg) counter, in(reg) 1u64) };
}
