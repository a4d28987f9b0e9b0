//! What the rest of the daemon sees of the watched pods: who owns which slot, published after each round.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use gt_common::{connection::CutKey, counters::Counters, owner::Slot};

/// An owner as its metrics name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub slot: Slot,
    pub name: Name,
    pub uid: String,
    /// Whether segments without a socket of their own lead here: they are known by their namespace only.
    pub by_namespace: bool,
}

/// The labels of an owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub namespace: String,
    pub pod: String,
    /// Empty where the container is not known (a socket known by its namespace only).
    pub container: String,
}

/// Counts of owners that are forgotten while their name lives on in a new pod: without them the new pod's
/// series would fall, which Prometheus reads as a restart from zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retired {
    pub counters: Counters,
    pub cuts: BTreeMap<CutKey, u64>,
}

/// How many pods there are, by what is known of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Watched, and their sockets are known.
    pub watched: u64,
    /// Watched, but nothing in the kernel leads to them yet: no series.
    pub unattributed: u64,
    /// Not watched, for want of slots.
    pub refused: u64,
    /// No longer there, their series kept for the retention time.
    pub gone: u64,
}

/// One round's result.
#[derive(Debug, Default)]
pub struct Published {
    /// Owners whose counts are known, in the order of their names.
    pub owners: Vec<Owner>,
    pub retired: BTreeMap<Name, Retired>,
    pub census: Census,
}

/// The last round's result, shared with the views; never held for long.
#[derive(Debug, Default)]
pub struct Owners {
    published: RwLock<Arc<Published>>,
    /// Held while counts are read by the slots of one result, so that none of them goes to another owner meanwhile.
    reading: RwLock<()>,
}

impl Owners {
    /// What is known now.
    #[must_use]
    pub fn now(&self) -> Arc<Published> {
        Arc::clone(&self.published.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces it.
    pub fn publish(&self, published: Published) {
        *self.published.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(published);
    }

    /// While this is held, the slots of what is [known now](Self::now) keep their counts.
    pub fn reader(&self) -> RwLockReadGuard<'_, ()> {
        self.reading.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody reads counts by what was known before; while this is held, nobody begins to.
    pub fn no_reader(&self) -> RwLockWriteGuard<'_, ()> {
        self.reading.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner of a slot.
    #[must_use]
    pub fn by_slot(&self, slot: Slot) -> Option<Owner> {
        self.now().owners.iter().find(|owner| owner.slot == slot).cloned()
    }
}
