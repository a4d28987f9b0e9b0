//! What the rest of the daemon sees of the watched pods: who owns which slot, published after each round.

use std::{
    collections::BTreeMap,
    fs::File,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError},
};

use gt_common::{counters::Counters, owner::Slot};
use tokio::sync::watch;

use super::Pod;

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

/// A watched pod, for those who read inside it.
#[derive(Clone, Debug)]
pub struct Followed {
    pub uid: Arc<str>,
    /// The pod's slot, which its facts are kept by.
    pub slot: Slot,
    /// What the source told last.
    pub pod: Arc<Pod>,
    /// Its network namespace while it is known. Whoever takes this must let go of it when a later result is
    /// without it: an open namespace keeps the pod's devices alive.
    pub netns: Option<Arc<File>>,
    /// Whether it lives in the host's network namespace, as far as is known.
    pub host_network: bool,
    /// Whether the source no longer names it.
    pub gone: bool,
}

/// Equal when nothing has changed between two rounds: what is shared is compared by its place, not looked at.
impl PartialEq for Followed {
    fn eq(&self, other: &Self) -> bool {
        let netns = |followed: &Self| followed.netns.as_ref().map(Arc::as_ptr);
        Arc::ptr_eq(&self.pod, &other.pod)
            && netns(self) == netns(other)
            && (self.slot, self.host_network, self.gone) == (other.slot, other.host_network, other.gone)
    }
}

/// One round's result.
#[derive(Debug, Default)]
pub struct Published {
    /// Owners whose counts are known, in the order of their names.
    pub owners: Vec<Owner>,
    /// All watched pods, in the order of their UIDs; one that has not changed is the same as in the round before.
    pub pods: Vec<Arc<Followed>>,
    /// Counts of owners that are forgotten while their name lives on in a new pod: without them the new pod's series would
    /// fall, which Prometheus reads as a restart from zero.
    pub retired: BTreeMap<Name, Counters>,
    pub census: Census,
}

impl Published {
    /// Whether pods and owners are the same.
    fn is_like(&self, other: &Self) -> bool {
        let same = |(one, another): (&Arc<Followed>, &Arc<Followed>)| Arc::ptr_eq(one, another);
        self.pods.len() == other.pods.len()
            && self.pods.iter().zip(&other.pods).all(same)
            && self.owners == other.owners
    }
}

/// The last round's result, shared with the views; never held for long.
#[derive(Debug, Default)]
pub struct Owners {
    published: RwLock<Arc<Published>>,
    /// Counts the results that were not like the one before.
    changes: watch::Sender<u64>,
    /// Held while counts are read by the slots of one result, so that none of them goes to another owner meanwhile.
    reading: RwLock<()>,
}

impl Owners {
    /// What is known now.
    #[must_use]
    pub fn now(&self) -> Arc<Published> {
        Arc::clone(&self.published.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells when pods or owners have changed; their number goes up with each change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Replaces it.
    pub fn publish(&self, published: Published) {
        let before = {
            let mut current = self.published.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, Arc::new(published))
        };
        if !self.now().is_like(&before) {
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// Like [`reader`](Self::reader), but does not wait: `None` while slots go to other owners.
    pub fn try_reader(&self) -> Option<RwLockReadGuard<'_, ()>> {
        match self.reading.try_read() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(gone: bool) -> Arc<Followed> {
        let pod = Arc::default();
        Arc::new(Followed { uid: "u".into(), slot: 1, pod, netns: None, host_network: false, gone })
    }

    /// Exercises rounds without and with news, so that whoever waits is woken by news alone.
    #[test]
    fn changes_are_told() {
        let owners = Owners::default();
        let mut changes = owners.changes();
        let one = followed(false);
        let publish = |pods: &[&Arc<Followed>]| {
            let pods = pods.iter().map(|pod| Arc::clone(pod)).collect();
            owners.publish(Published { pods, ..Published::default() });
        };
        publish(&[]);
        assert!(!changes.has_changed().unwrap());
        publish(&[&one]);
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        publish(&[&one]);
        assert!(!changes.has_changed().unwrap());
        publish(&[&followed(true)]);
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        let name = Name { namespace: "n".into(), pod: "p".into(), container: String::new() };
        let owner = Owner { slot: 1, name, uid: "u".into(), by_namespace: true };
        owners.publish(Published { owners: vec![owner], ..Published::default() });
        assert_eq!(*changes.borrow_and_update(), 3);
    }

    /// Exercises slots that are about to be reused, so that nobody who may not wait waits for them.
    #[test]
    fn nobody_waits_who_may_not() {
        let owners = Owners::default();
        let reused = owners.no_reader();
        assert!(owners.try_reader().is_none());
        drop(reused);
        assert!(owners.try_reader().is_some());
    }
}
