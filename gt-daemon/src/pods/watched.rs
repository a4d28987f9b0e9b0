//! The tracker's own record of each watched pod, and the slots left to give away.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use gt_common::owner::{SELF_CHECK, Slot};

use super::{
    Pod,
    netns::Netns,
    owners::{Name, Owner},
};

/// A cgroup id set in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnedCgroup {
    pub(super) slot: Slot,
    /// Since when its directory is gone.
    pub(super) gone: Option<Instant>,
}

/// A watched pod: its slots, and what in the kernel leads to them.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) pod: Pod,
    /// The slot for what is known to be the pod's, but not which container's.
    pub(super) slot: Slot,
    /// Slots by container name.
    pub(super) containers: BTreeMap<String, Slot>,
    /// Cgroup ids set in the kernel.
    pub(super) cgroups: BTreeMap<u64, OwnedCgroup>,
    /// The namespace, held open; `None` when not found yet, when it is the host's, or when the pod is gone.
    pub(super) netns: Option<Netns>,
    /// Whether the pod was found to live in the host's network namespace.
    pub(super) host_network: bool,
    /// Whether a namespace of its own was ever found: its counts stay known when the pod is gone.
    pub(super) had_netns: bool,
    /// Why its network namespace cannot be used, as it was last told.
    pub(super) fault: Option<String>,
    /// Ports the kernel programs were told of.
    pub(super) ports: BTreeSet<u16>,
    /// Since when the source no longer names the pod.
    pub(super) gone: Option<Instant>,
}

impl Watched {
    /// A pod of which only the source has told.
    pub(super) fn new(pod: Pod, slot: Slot) -> Self {
        Self {
            pod,
            slot,
            containers: BTreeMap::new(),
            cgroups: BTreeMap::new(),
            netns: None,
            host_network: false,
            had_netns: false,
            fault: None,
            ports: BTreeSet::new(),
            gone: None,
        }
    }

    /// Whether anything in the kernel leads to this pod; until then its counts are unknown, not zero.
    pub(super) fn is_attributed(&self) -> bool {
        self.had_netns || !self.cgroups.is_empty()
    }

    /// All of the pod's slots with their names.
    pub(super) fn owners(&self) -> impl Iterator<Item = Owner> {
        let owner = |container: &str, slot| Owner {
            slot,
            name: Name {
                namespace: self.pod.namespace.clone(),
                pod: self.pod.name.clone(),
                container: container.to_owned(),
            },
            uid: self.pod.uid.clone(),
            by_namespace: container.is_empty() && self.had_netns,
        };
        std::iter::once(owner("", self.slot))
            .chain(self.containers.iter().map(move |(name, slot)| owner(name, *slot)))
    }
}

/// Slots nobody has.
#[derive(Debug)]
pub(super) struct FreeSlots(BTreeSet<Slot>);

impl FreeSlots {
    /// All but the self-check's.
    pub(super) fn new(slots: u32) -> Self {
        Self((0..slots).filter(|slot| *slot != SELF_CHECK).collect())
    }

    /// The lowest.
    pub(super) fn take(&mut self) -> Option<Slot> {
        self.0.pop_first()
    }

    pub(super) fn give_back(&mut self, slot: Slot) {
        self.0.insert(slot);
    }
}
