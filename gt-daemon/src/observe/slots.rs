//! Whose slots are whose, and for how long that may be relied on.

use std::{
    collections::BTreeMap,
    sync::{Arc, RwLockReadGuard},
};

use gt_common::owner::Slot;
use tokio::sync::watch;

use super::pod::PodState;
use crate::{
    correlate::Joined,
    pods::owners::{Name, Owners, Published},
};

/// Keeps slots with the pods of a generation while it is held; `None` when there are other pods by now, or may be at once.
/// Slots go to other pods after they were published without their last ones, and never while this is held.
pub(super) fn hold_slots<'a>(
    owners: &'a Owners,
    changes: &watch::Receiver<u64>,
    generation: u64,
) -> Option<RwLockReadGuard<'a, ()>> {
    let guard = owners.try_reader()?;
    (*changes.borrow() == generation).then_some(guard)
}

/// What can be joined for each pod.
pub(super) fn joined(published: &Published, pods: &BTreeMap<Arc<str>, PodState>) -> Vec<Joined> {
    let mut slots: BTreeMap<&str, Vec<(Slot, Name)>> = BTreeMap::new();
    for owner in &published.owners {
        slots.entry(&owner.uid).or_default().push((owner.slot, owner.name.clone()));
    }
    pods.iter()
        .map(|(uid, state)| Joined {
            uid: Arc::clone(uid),
            slots: slots.remove(&**uid).unwrap_or_default(),
            pod_slot: state.followed.slot,
            has_hc: state.has_hc(),
            has_envoy: state.has_envoy(),
            ends: state.ends(),
        })
        .collect()
}
