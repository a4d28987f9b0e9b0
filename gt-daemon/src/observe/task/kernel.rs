//! What the task tells the kernel programs and reads of them, all by slots.

use gt_common::connection::CutKey;
use tracing::{debug, error};

use super::Observer;
use crate::{
    clock::Moment,
    observe::{slots::hold_slots, tell::tell},
};

impl Observer {
    /// Tells the kernel programs the states that have changed. What cannot be told now is at the next tick.
    pub(super) fn tell_kernel(&mut self, now: Moment) {
        let Self { pods, parts, changes, generation, .. } = self;
        for state in pods.values_mut() {
            let hc = state.hc_state(now);
            if hc == state.kernel_knows {
                continue;
            }
            let Some(_slots_stay_whose_they_are) = hold_slots(&parts.owners, changes, *generation) else {
                return;
            };
            let (pod, namespace) = (&state.followed.pod.name, &state.followed.pod.namespace);
            match parts.kernel.set_hc(state.followed.slot, hc) {
                Ok(()) => debug!(pod, namespace, state = ?hc, "hc"),
                Err(error) => error!(pod, namespace, %error, "teardowns do not bear the state of its hc"),
            }
            // Told or not: an error would be the same ten times a second.
            state.kernel_knows = hc;
        }
    }

    /// Joins the kernel's own counts of cuts.
    pub(super) fn read_cuts(&mut self) {
        let cuts: Vec<(CutKey, u64)> = {
            let Some(_slots_stay_whose_they_are) =
                hold_slots(&self.parts.owners, &self.changes, self.generation)
            else {
                return;
            };
            match self.parts.kernel.cuts() {
                Ok(cuts) => cuts.into_iter().collect(),
                // A scrape meets the same error, and tells it.
                Err(error) => return debug!(%error, "cuts are not joined now"),
            }
        };
        let now = Moment::now();
        let found = self.joins().kernel_cuts(&cuts, now);
        for judged in &found {
            tell(judged, self.parts.hz);
            self.drains.judged(judged, now);
        }
    }

    /// How many users are connected to the pods that drain.
    pub(super) fn count_users(&mut self, now: Moment) {
        if let Some(_slots_stay_whose_they_are) =
            hold_slots(&self.parts.owners, &self.changes, self.generation)
        {
            self.drains.count(&*self.parts.kernel, now);
        }
    }

    /// How many users are connected to a pod; `None` while that cannot be told.
    pub(super) fn users(&self, uid: &str) -> Option<(u64, u64)> {
        let _slots_stay_whose_they_are = hold_slots(&self.parts.owners, &self.changes, self.generation)?;
        self.drains.users(uid, &*self.parts.kernel)
    }
}
