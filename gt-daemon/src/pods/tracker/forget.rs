//! The end of a pod: it stays for the retention time, then everything of it goes.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use gt_common::owner::Slot;
use tracing::info;

use super::{Tracker, watched::Watched};
use crate::{
    pods::{Pod, tree::PodDirs},
    probes::ProbeError,
};

/// How long a pod that is gone, and whose cgroup is, keeps its network namespace open. Its last packets come after
/// it; but an open namespace keeps its devices and addresses alive, which an observer must not do for long.
const NETNS_GRACE: Duration = Duration::from_secs(10);

impl Tracker {
    /// Pods the source no longer names stay for the retention time: the last RST comes after the pod, the scrape
    /// later still. Returns the slots of those that are forgotten now, to be [reused](Self::reuse) when no view
    /// knows them any more.
    pub(super) fn forget(
        &mut self,
        named: &BTreeSet<String>,
        dirs: &PodDirs,
        now: Instant,
    ) -> Result<Vec<Slot>, ProbeError> {
        let mut over = Vec::new();
        for (uid, watched) in &mut self.state.watched {
            let Some(since) = watched.gone else { continue };
            let gone_for = now.duration_since(since);
            // Deleted by force, a pod's processes may outlive it: as long as its cgroup is there, so may they.
            let empty = dirs.of(uid).is_empty();
            if (empty && gone_for >= NETNS_GRACE || gone_for >= self.settings.retain)
                && let Some(netns) = watched.netns.take()
            {
                self.maps.disown_namespace(netns.inode(), watched.slot)?;
            }
            if gone_for >= self.settings.retain {
                over.push(uid.clone());
            }
        }
        let over: Vec<_> = over.iter().filter_map(|uid| self.state.watched.remove(uid)).collect();
        self.state.refused.retain(|(uid, _)| named.contains(uid));
        self.release(&over)
    }

    /// Nothing in the kernel leads to some pods any more; their counts live on where their names do. All at once:
    /// the kernel's tables are walked once for all of them.
    fn release(&mut self, over: &[Watched]) -> Result<Vec<Slot>, ProbeError> {
        if over.is_empty() {
            return Ok(Vec::new());
        }
        let mut slots = Vec::new();
        for watched in over {
            for id in watched.cgroups.keys() {
                self.maps.disown_cgroup(*id, watched.slot)?;
            }
            for port in &watched.ports {
                self.maps.declass(watched.slot, *port)?;
            }
            for owner in watched.owners() {
                let retired = self.state.retired.entry(owner.name).or_default();
                retired.add(&self.maps.counters(owner.slot)?);
                slots.push(owner.slot);
            }
        }
        for watched in over {
            let Pod { namespace, name, uid, .. } = &*watched.pod;
            info!(pod = name, namespace, uid, "pod forgotten");
        }
        Ok(slots)
    }

    /// Empties slots and lets other pods have them: after the names were published without them, and not while
    /// a scrape by the names before is under way, which would show zero, or another pod's counts, for a pod that
    /// is forgotten.
    pub(super) fn reuse(&mut self, slots: &[Slot]) -> Result<(), ProbeError> {
        if slots.is_empty() {
            return Ok(());
        }
        let _no_scrape_reads = self.owners.no_reader();
        self.maps.reset(slots)?;
        for slot in slots {
            self.state.free.give_back(*slot);
        }
        Ok(())
    }
}
