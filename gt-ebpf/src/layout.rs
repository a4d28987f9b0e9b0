//! Offsets and settings, set by the daemon before load; frozen, so constants to the verifier.

use gt_common::{config::Config, connection::Limits, layout::KernelLayout};

#[unsafe(no_mangle)]
static LAYOUT: KernelLayout = KernelLayout::UNKNOWN;

#[unsafe(no_mangle)]
static CONFIG: Config = Config {
    host_netns: 0,
    cgroup_owner: 0,
    limits: Limits { stream_window: 0, prompt_answer: 0, ack_delay: 0 },
    reset_has_packet: 0,
    knows_syscall: 0,
};

#[unsafe(no_mangle)]
static PLACE_MASK: u32 = 0;

/// Reads one offset. Volatile, since the compiler would otherwise fold the initial value in.
macro_rules! offset {
    ($field:ident) => {
        unsafe { core::ptr::read_volatile(&raw const (*$crate::layout::layout()).$field) }
    };
}
pub(crate) use offset;

#[inline(always)]
pub(crate) fn layout() -> *const KernelLayout {
    &raw const LAYOUT
}

#[inline(always)]
pub(crate) fn host_netns() -> u32 {
    unsafe { core::ptr::read_volatile(&raw const CONFIG.host_netns) }
}

#[inline(always)]
pub(crate) fn cgroup_owner() -> bool {
    unsafe { core::ptr::read_volatile(&raw const CONFIG.cgroup_owner) == 1 }
}

#[inline(always)]
pub(crate) fn limits() -> Limits {
    unsafe { core::ptr::read_volatile(&raw const CONFIG.limits) }
}

#[inline(always)]
pub(crate) fn reset_has_packet() -> bool {
    unsafe { core::ptr::read_volatile(&raw const CONFIG.reset_has_packet) == 1 }
}

#[inline(always)]
pub(crate) fn knows_syscall() -> bool {
    unsafe { core::ptr::read_volatile(&raw const CONFIG.knows_syscall) == 1 }
}

/// The number of places for connections, less one.
#[inline(always)]
pub(crate) fn place_mask() -> u32 {
    unsafe { core::ptr::read_volatile(&raw const PLACE_MASK) }
}
