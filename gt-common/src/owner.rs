//! Owners: a watched pod, or one of its containers, as a small number.
//!
//! Maps from cgroup id (u64) and network namespace inode number (u32) lead to an [`Owner`]; counters are kept
//! per slot. Slot 0 belongs to the daemon's self-check.

/// Index of an owner's counters.
pub type Slot = u32;

/// The slot of the network namespace in which the daemon checks its own hooks.
pub const SELF_CHECK: Slot = 0;

/// A slot has to fit in 16 bits, in which an entry of the connection table keeps it.
pub const MAX_SLOTS: u32 = 1 << 16;

/// Slots available by default; the daemon can set another number at start.
pub const DEFAULT_SLOTS: u32 = 1024;

/// How many levels above a socket's own cgroup are looked at before its cgroup counts as unknown: a
/// container's scope below the pod's, and nested scopes some runtimes make below the container's.
pub const CGROUP_LEVELS: u32 = 4;

/// How many places there are for what is known of network namespaces in an array; a power of two.
pub const NAMESPACE_PLACES: u32 = 4096;

/// The place of a network namespace, by its inode number. Namespaces get the lowest number that is free, so few
/// share one.
#[must_use]
pub const fn namespace_place(inode: u32) -> u32 {
    inode % NAMESPACE_PLACES
}

/// Whose a socket is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Where it is counted: a container, or the pod where the container is not known.
    pub slot: Slot,
    /// The pod as a whole: its ports and facts.
    pub pod: Slot,
}

const _: () = assert!(size_of::<Owner>() == 8);
crate::pod!(Owner);
