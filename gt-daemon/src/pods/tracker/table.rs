//! The table of connections against the sockets that are there: what was open before its pod was watched comes
//! in, what ended unseen goes.

use std::{
    collections::BTreeMap,
    sync::{MutexGuard, PoisonError},
    time::{Duration, Instant},
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

/// A part of a comparison of the table with the sockets that are there.
#[derive(Clone, Copy, Debug)]
pub struct Checked {
    /// Network namespaces that were walked.
    pub namespaces: u32,
    /// Entries that had ended unseen.
    pub corrected: u64,
    /// How long it took.
    pub took: Duration,
    /// Whether all namespaces have been walked since the comparison began.
    pub whole: bool,
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

    /// Goes on with the comparison of the table with all watched sockets: walks namespaces for about `longest`, one at
    /// least, since each walk goes over all sockets of the machine. Entries that were missing come in, those that had
    /// ended unseen go.
    pub fn check_on(&mut self, longest: Duration) -> Result<Checked, AdoptError> {
        let began = Instant::now();
        let checked = std::mem::take(&mut self.checked);
        let mut left = self.namespaces();
        left.retain(|inode, _| !checked.contains(inode));
        let mut passes = BTreeMap::new();
        let mut whole = true;
        for (inode, netns) in &left {
            if !passes.is_empty() && began.elapsed() >= longest {
                whole = false;
                break;
            }
            passes.insert(*inode, self.pass(netns)?);
        }
        let corrected = self.correct(&passes)?;
        if !whole {
            self.checked = checked.into_iter().chain(passes.keys().copied()).collect();
        }
        let namespaces = u32::try_from(passes.len()).unwrap_or(u32::MAX);
        Ok(Checked { namespaces, corrected, took: began.elapsed(), whole })
    }

    /// The namespaces that have watched sockets, by inode number: two pods may have the same one, when the older of them is
    /// gone.
    fn namespaces(&self) -> BTreeMap<u32, &Netns> {
        let unified = self.settings.cgroups.mode == Mode::Unified && !self.state.watched.is_empty();
        let host = unified.then_some(&self.settings.host_netns);
        let pods = self.state.watched.values().filter_map(|watched| watched.netns.as_ref());
        pods.chain(host).map(|netns| (netns.inode(), netns)).collect()
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
        let unseen = self.maps.connections(|connection| {
            passes
                .get(&connection.netns)
                .is_some_and(|pass| connection.seen != pass.number && connection.since_ns < pass.began_ns)
        })?;
        Ok(self.maps.correct(&unseen)?)
    }

    fn probes(&self) -> MutexGuard<'_, Probes> {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_taken_in(namespace: &str, pod: &str, error: &AdoptError) {
    warn!(pod, namespace, %error, "open connections are not taken in");
}
