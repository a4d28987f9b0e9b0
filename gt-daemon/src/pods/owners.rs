//! Slots: which pod or container each of the kernel's counters belongs to.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use gt_common::owner::{SELF_CHECK, Slot};

use super::{Pod, netns::Netns};

/// An owner as its metrics name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub slot: Slot,
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    /// Empty where the container is not known (a socket known by its namespace only).
    pub container: String,
    /// Whether segments without a socket of its own lead here: they are known by their namespace only.
    pub by_namespace: bool,
}

/// A watched pod: its slots, and what in the kernel leads to them.
#[derive(Debug)]
pub struct Watched {
    pub pod: Pod,
    /// The slot for what is known to be the pod's, but not which container's.
    pub slot: Slot,
    /// Slots by container name.
    pub containers: BTreeMap<String, Slot>,
    /// Cgroup ids set in the kernel, with their slots.
    pub cgroups: BTreeMap<u64, Slot>,
    /// The namespace, held open; `None` when not found yet or when it is the host's.
    pub netns: Option<Netns>,
    /// Whether the pod was found to live in the host's network namespace.
    pub host_network: bool,
    /// Ports the kernel programs were told of.
    pub ports: BTreeSet<u16>,
    /// Since when the source no longer names the pod.
    pub gone: Option<Instant>,
}

impl Watched {
    /// A pod of which only the source has told.
    #[must_use]
    pub fn new(pod: Pod, slot: Slot) -> Self {
        Self {
            pod,
            slot,
            containers: BTreeMap::new(),
            cgroups: BTreeMap::new(),
            netns: None,
            host_network: false,
            ports: BTreeSet::new(),
            gone: None,
        }
    }

    /// Whether anything in the kernel leads to this pod; until then its counts are unknown, not zero.
    #[must_use]
    pub fn is_attributed(&self) -> bool {
        self.netns.is_some() || !self.cgroups.is_empty()
    }
}

/// All watched pods by UID, and the free slots.
#[derive(Debug)]
pub struct Owners {
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) watched: BTreeMap<String, Watched>,
    free: BTreeSet<Slot>,
    /// Pods (by UID) and containers (UID/name) that found no slot: told once.
    pub(super) refused: BTreeSet<String>,
}

impl State {
    /// The lowest free slot.
    pub(super) fn allocate(&mut self) -> Option<Slot> {
        self.free.pop_first()
    }

    pub(super) fn release(&mut self, slot: Slot) {
        self.free.insert(slot);
    }
}

impl Owners {
    /// No owners yet, `slots` to give away (the self-check's excluded).
    #[must_use]
    pub fn new(slots: u32) -> Self {
        let free = (0..slots).filter(|slot| *slot != SELF_CHECK).collect();
        Self { state: Mutex::new(State { watched: BTreeMap::new(), free, refused: BTreeSet::new() }) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owners whose counts are known now, in the order of namespace, pod and container.
    #[must_use]
    pub fn list(&self) -> Vec<Owner> {
        let state = self.lock();
        let mut owners: Vec<_> = state
            .watched
            .values()
            .filter(|watched| watched.is_attributed())
            .flat_map(|watched| {
                let owner = |container: &str, slot| Owner {
                    by_namespace: container.is_empty() && watched.netns.is_some(),
                    slot,
                    namespace: watched.pod.namespace.clone(),
                    pod: watched.pod.name.clone(),
                    uid: watched.pod.uid.clone(),
                    container: container.to_owned(),
                };
                std::iter::once(owner("", watched.slot))
                    .chain(watched.containers.iter().map(move |(name, slot)| owner(name, *slot)))
            })
            .collect();
        owners.sort_by(|a, b| {
            (&a.namespace, &a.pod, &a.container, &a.uid).cmp(&(&b.namespace, &b.pod, &b.container, &b.uid))
        });
        owners
    }

    /// The owner of a slot.
    #[must_use]
    pub fn by_slot(&self, slot: Slot) -> Option<Owner> {
        self.list().into_iter().find(|owner| owner.slot == slot)
    }
}
