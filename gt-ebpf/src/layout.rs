//! Offsets and settings, set by the daemon before load; frozen, so constants to the verifier.

use gt_common::{config::Config, layout::KernelLayout};

#[unsafe(no_mangle)]
static LAYOUT: KernelLayout = KernelLayout::UNKNOWN;

#[unsafe(no_mangle)]
static CONFIG: Config = Config { host_netns: 0, cgroup_owner: 0 };

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
