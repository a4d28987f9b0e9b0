//! Which network namespace is a pod's.

use std::{path::Path, time::Instant};

use gt_common::owner::Owner;
use tracing::{info, warn};

use super::{Tracker, cgroups::Place, watched::Watched};
use crate::{
    kernel::cgroup::Mode,
    pods::{Pod, netns::Netns},
    probes::ProbeError,
};

impl Tracker {
    /// Finds the pod's network namespace, and follows it when the pod gets another one (a sandbox made anew);
    /// whether there is a new one.
    pub(super) fn own_namespace(
        &self,
        watched: &mut Watched,
        pod: &Pod,
        places: &[Place],
        now: Instant,
    ) -> Result<bool, ProbeError> {
        if pod.host_network == Some(true) {
            self.in_hosts_network(watched, pod);
            return Ok(false);
        }
        let found = match &pod.netns {
            // Looked at in each round: to open it would take four times as long.
            Some(path) if watched.netns.as_ref().is_some_and(|known| known.is_at(path)) => None,
            Some(path) => self.given(watched, pod, path),
            None if watched.looks_again(places, now) => self.by_process(watched, pod, places),
            None => None,
        };
        let Some(netns) = found else { return Ok(false) };
        if netns.inode() == self.settings.host_netns.inode() {
            // A process that is in the host's for a moment (a runtime starting a container) does not make a pod one
            // of the host's network, nor does the source's word leave room for it.
            if watched.netns.is_none() && pod.host_network.is_none() {
                self.in_hosts_network(watched, pod);
            }
            return Ok(false);
        }
        if watched.netns.as_ref().is_some_and(|known| known.inode() == netns.inode()) {
            return Ok(false);
        }
        // Two pods cannot be told apart in one namespace: the first keeps it until it is gone.
        let holder = self.state.watched.values().find(|other| {
            other.gone.is_none() && other.netns.as_ref().is_some_and(|held| held.inode() == netns.inode())
        });
        if let Some(holder) = holder {
            let fault = format!("{}/{} has it", holder.pod.namespace, holder.pod.name);
            let what = format!("no counts by this network namespace ({})", netns.inode());
            watched.tell_fault(pod, &what, fault);
            return Ok(false);
        }
        watched.fault = None;
        watched.host_network = false;
        watched.had_netns = true;
        self.maps.own_namespace(netns.inode(), Owner { slot: watched.slot, pod: watched.slot })?;
        info!(pod = pod.name, namespace = pod.namespace, netns = netns.inode(), "network namespace found");
        if let Some(old) = watched.netns.replace(netns) {
            self.maps.disown_namespace(old.inode(), watched.slot)?;
        }
        Ok(true)
    }

    /// A namespace by the file that the source names. One that is not there yet is waited for; any other fault is
    /// told, once.
    fn given(&self, watched: &mut Watched, pod: &Pod, path: &Path) -> Option<Netns> {
        match Netns::open(path) {
            Ok(netns) => Some(netns),
            Err(error) => {
                if error.kind() != std::io::ErrorKind::NotFound {
                    let fault = format!("cannot use the network namespace {}: {error}", path.display());
                    watched.tell_fault(pod, "no series", fault);
                }
                None
            }
        }
    }

    /// A namespace by the pod's processes; those of the runtime (conmon) live in the host's. One that is
    /// known stays for as long as any of them is in it.
    fn by_process(&self, watched: &mut Watched, pod: &Pod, places: &[Place]) -> Option<Netns> {
        let mut places: Vec<_> = places.iter().filter(|place| !place.helper).collect();
        // A node or a builder inside a container has containers, and so namespaces, of its own.
        places.sort_by_key(|place| place.nested);
        let paths = places.iter().map(|place| place.path.as_path());
        let known = watched.netns.as_ref().map(Netns::inode);
        let host = self.settings.host_netns.inode();
        match Netns::of_processes(paths, &self.settings.proc, host, known) {
            Ok(found) => found,
            Err(error) => {
                watched.tell_fault(pod, "no series", error.to_string());
                None
            }
        }
    }

    fn in_hosts_network(&self, watched: &mut Watched, pod: &Pod) {
        if watched.netns.is_some() || watched.host_network {
            return;
        }
        watched.host_network = true;
        if self.settings.cgroups.mode != Mode::Unified {
            warn!(
                pod = pod.name,
                namespace = pod.namespace,
                "host network on a host without unified cgroups: this pod's sockets cannot be told from others', \
                 so it has no series"
            );
        }
    }
}
