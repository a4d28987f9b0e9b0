//! The table of connections against the sockets that are there: what was open before its pod was watched comes
//! in, what ended unseen goes.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{MutexGuard, PoisonError},
};

use tracing::warn;

use super::Tracker;
use crate::{
    clock::monotonic_ns,
    kernel::cgroup::Mode,
    pods::netns::Netns,
    probes::{Probes, adopt::AdoptError},
};

/// Where a pod's sockets are walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sockets {
    OwnNamespace,
    Host,
}

/// A pass of the iterator: its number, and when it began by the clock of the kernel programs.
#[derive(Clone, Copy, Debug)]
struct Pass {
    number: u32,
    began_ns: u64,
}

impl Tracker {
    /// Takes in the connections of pods (by UID) that are newly accounted for. Two passes, so that one that
    /// ended during the first does not stay; then one look at the table for all of them.
    pub(super) fn adopt(&self, pods: &[(String, Sockets)]) {
        let mut passes = BTreeMap::new();
        for (uid, sockets) in pods {
            let Some(watched) = self.state.watched.get(uid) else { continue };
            let (Sockets::OwnNamespace, Some(netns)) = (sockets, &watched.netns) else { continue };
            match self.pass(netns).and_then(|_| self.pass(netns)) {
                Ok(pass) => {
                    passes.insert(netns.inode(), pass);
                }
                Err(error) => not_taken_in(&watched.pod.namespace, &watched.pod.name, &error),
            }
        }
        if pods.iter().any(|(_, sockets)| *sockets == Sockets::Host) {
            let host = &self.settings.host_netns;
            match self.pass(host).and_then(|_| self.pass(host)) {
                Ok(pass) => {
                    passes.insert(host.inode(), pass);
                }
                Err(error) => not_taken_in("", "those of the host's network", &error),
            }
        }
        if let Err(error) = self.correct(&passes) {
            warn!(%error, "connections that ended while they were taken in may stay in the table for a minute");
        }
    }

    /// Compares the whole table with all watched sockets; returns how many entries had ended unseen. Entries
    /// that were missing come in.
    pub fn reconcile_all(&self) -> Result<u64, AdoptError> {
        let unified = self.settings.cgroups.mode == Mode::Unified && !self.state.watched.is_empty();
        let host = unified.then_some(&self.settings.host_netns);
        let mut passes = BTreeMap::new();
        // Two pods may have the same one: the older of them is gone.
        for netns in self.state.watched.values().filter_map(|watched| watched.netns.as_ref()).chain(host) {
            if let Entry::Vacant(place) = passes.entry(netns.inode()) {
                place.insert(self.pass(netns)?);
            }
        }
        self.correct(&passes)
    }

    fn pass(&self, netns: &Netns) -> Result<Pass, AdoptError> {
        // An entry bears the time of the packet that made it, a little before it was in the table.
        let began_ns = monotonic_ns().saturating_sub(1_000_000);
        let number = self.probes().adopt(netns.file())?;
        Ok(Pass { number, began_ns })
    }

    /// Takes out the entries that the last pass over their namespace (by inode number) did not see; returns how
    /// many. A pod may have sockets in several namespaces, such as those of a node inside it: what no pass went
    /// over is left alone.
    fn correct(&self, passes: &BTreeMap<u32, Pass>) -> Result<u64, AdoptError> {
        if passes.is_empty() {
            return Ok(0);
        }
        let mut unseen = self.maps.connections()?;
        unseen.retain(|(_, connection)| {
            passes
                .get(&connection.netns)
                .is_some_and(|pass| connection.seen != pass.number && connection.since_ns < pass.began_ns)
        });
        Ok(self.maps.correct(&unseen)?)
    }

    fn probes(&self) -> MutexGuard<'_, Probes> {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_taken_in(namespace: &str, pod: &str, error: &AdoptError) {
    warn!(pod, namespace, %error, "open connections are not taken in");
}
