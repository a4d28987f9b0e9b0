//! One round: which pods are there, where are their sockets, and the kernel's maps accordingly.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use gt_common::{
    connection::{Lane, PodFacts, Protocol},
    owner::{Owner, Slot},
};
use tracing::{info, warn};

use super::{
    Class, Declared, Pod,
    netns::Netns,
    owners::{Owners, State, Watched},
    source::{Source, SourceError},
    tree::{PodDirs, container_id, subdirectories},
};
use crate::{
    kernel::cgroup::{Cgroups, Mode},
    probes::{ProbeError, Probes, maps::Maps},
};

/// What a tracker works with.
pub struct Tracker {
    pub source: Source,
    /// Watch only pods with a container of this name.
    pub container: Option<String>,
    /// Inbound ports of every pod that are not user traffic.
    pub ports: Vec<(u16, Class)>,
    pub cgroups: Cgroups,
    pub proc: PathBuf,
    pub host_netns: Netns,
    /// How long a pod that is gone keeps its series: the last RST comes after the pod, the scrape later still.
    pub retain: Duration,
    pub owners: Arc<Owners>,
    pub maps: Arc<Maps>,
    /// For the connections that are there before their pod is watched.
    pub probes: Arc<Mutex<Probes>>,
}

/// Why a round failed.
#[derive(Debug, thiserror::Error)]
pub enum TrackError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Probe(#[from] ProbeError),
}

impl Tracker {
    /// Brings owners and maps in step with the source; `now` decides what has been gone long enough. A pod
    /// that cannot be watched is told in the log and does not keep the others from it.
    pub fn round(&self, now: Instant) -> Result<(), TrackError> {
        let pods = self.source.pods(self.container.as_deref())?;
        let dirs = PodDirs::scan(&self.cgroups.trees);
        let mut state = self.owners.lock();
        let named: BTreeSet<_> = pods.iter().map(|pod| pod.uid.clone()).collect();
        for pod in pods {
            let name = format!("{}/{}", pod.namespace, pod.name);
            if let Err(error) = self.see(&mut state, pod, &dirs) {
                warn!(pod = name, %error, "not fully watched");
            }
        }
        self.forget(&mut state, &named, now)?;
        Ok(())
    }

    fn see(&self, state: &mut State, pod: Pod, dirs: &PodDirs) -> Result<(), ProbeError> {
        if !state.watched.contains_key(&pod.uid) && !self.begin(state, &pod)? {
            return Ok(());
        }
        let places = self.places(&pod, dirs);
        self.name_containers(state, &pod, &places)?;
        let Some(watched) = state.watched.get_mut(&pod.uid) else { return Ok(()) };
        watched.gone = None;
        let new_cgroups = self.own_cgroups(watched, &places)?;
        let new_namespace = self.own_namespace(watched, &pod, &places)?;
        watched.pod = pod;
        if new_namespace && let Some(netns) = &watched.netns {
            self.adopt(&watched.pod, netns);
        } else if new_cgroups && watched.netns.is_none() {
            // In the host's network: its sockets are known by their cgroups.
            self.adopt(&watched.pod, &self.host_netns);
        }
        Ok(())
    }

    /// Gives a new pod its slot and tells the kernel programs its ports; false when no slot is left.
    fn begin(&self, state: &mut State, pod: &Pod) -> Result<bool, ProbeError> {
        let Some(slot) = state.allocate() else {
            if state.refused.insert(pod.uid.clone()) {
                warn!(
                    pod = pod.name,
                    namespace = pod.namespace,
                    "not watched: all slots are taken; raise --slots"
                );
            }
            return Ok(false);
        };
        state.refused.remove(&pod.uid);
        let mut watched = Watched::new(pod.clone(), slot);
        let facts = PodFacts { protocol: declared(pod.protocol), ..PodFacts::default() };
        self.maps.tell(slot, facts)?;
        for (port, class) in self.ports.iter().chain(&pod.ports) {
            let lane = match class {
                Class::Health => Lane::Health,
                Class::Admin => Lane::Admin,
            };
            self.maps.class(slot, *port, lane)?;
            watched.ports.insert(*port);
        }
        info!(pod = pod.name, namespace = pod.namespace, uid = pod.uid, slot, "watching pod");
        state.watched.insert(pod.uid.clone(), watched);
        Ok(true)
    }

    /// The pod's cgroup directories.
    fn places(&self, pod: &Pod, dirs: &PodDirs) -> Vec<PathBuf> {
        match &pod.cgroup {
            Some(given) => self
                .cgroups
                .trees
                .iter()
                .map(|tree| below(tree, given))
                .filter(|path| path.is_dir())
                .collect(),
            None => dirs.of(&pod.uid).to_vec(),
        }
    }

    /// Containers get slots of their own only where a socket's cgroup tells them apart.
    fn name_containers(&self, state: &mut State, pod: &Pod, places: &[PathBuf]) -> Result<(), ProbeError> {
        if self.cgroups.mode != Mode::Unified || places.is_empty() {
            return Ok(());
        }
        for container in &pod.containers {
            if container.id.is_none() && container.cgroup.is_none() {
                continue;
            }
            if state.watched.get(&pod.uid).is_none_or(|w| w.containers.contains_key(&container.name)) {
                continue;
            }
            let Some(slot) = state.allocate() else {
                if state.refused.insert(format!("{}/{}", pod.uid, container.name)) {
                    warn!(pod = pod.name, container = container.name, "counted with its pod: raise --slots");
                }
                continue;
            };
            if let Some(watched) = state.watched.get_mut(&pod.uid) {
                watched.containers.insert(container.name.clone(), slot);
            }
        }
        Ok(())
    }

    /// Sets the ids of all cgroups at and below the pod's; whether there were new ones.
    fn own_cgroups(&self, watched: &mut Watched, places: &[PathBuf]) -> Result<bool, ProbeError> {
        if self.cgroups.mode != Mode::Unified {
            return Ok(false);
        }
        let mut found = BTreeMap::new();
        for place in places {
            self.collect(watched, place, watched.slot, &mut found);
        }
        let mut new = false;
        for (id, slot) in found {
            if watched.cgroups.get(&id) != Some(&slot) {
                self.maps.own_cgroup(id, Owner { slot, pod: watched.slot })?;
                // A container's cgroup that is gone keeps its sockets' owner until the pod goes: its last RST
                // may come after it, and ids are not reused.
                watched.cgroups.insert(id, slot);
                new = true;
            }
        }
        Ok(new)
    }

    fn collect(&self, watched: &Watched, directory: &Path, inherited: Slot, found: &mut BTreeMap<u64, Slot>) {
        let slot = self.container_slot(watched, directory).unwrap_or(inherited);
        if let Ok(metadata) = fs::metadata(directory) {
            found.insert(metadata.ino(), slot);
        }
        for child in subdirectories(directory) {
            self.collect(watched, &child, slot, found);
        }
    }

    fn container_slot(&self, watched: &Watched, directory: &Path) -> Option<Slot> {
        let name = directory.file_name()?.to_str()?;
        let id = container_id(name);
        let container = watched.pod.containers.iter().find(|container| {
            let by_id = id.is_some() && container.id.as_deref() == id;
            let by_path = container
                .cgroup
                .as_ref()
                .is_some_and(|given| self.cgroups.trees.iter().any(|tree| below(tree, given) == directory));
            by_id || by_path
        })?;
        watched.containers.get(&container.name).copied()
    }

    /// Finds the pod's network namespace, and follows it when the pod gets another one (a sandbox made anew);
    /// whether there is a new one. A process that is in the host's for a moment (a runtime starting a
    /// container) does not make a pod one of the host's network.
    fn own_namespace(
        &self,
        watched: &mut Watched,
        pod: &Pod,
        places: &[PathBuf],
    ) -> Result<bool, ProbeError> {
        let host = self.host_netns.inode();
        let found = match &pod.netns {
            Some(path) => Netns::open(path).ok(),
            None => Netns::of_cgroups(places, &self.proc, host),
        };
        let Some(netns) = found else { return Ok(false) };
        if netns.inode() == host {
            if watched.netns.is_none() && !watched.host_network {
                watched.host_network = true;
                if self.cgroups.mode != Mode::Unified {
                    warn!(
                        pod = pod.name,
                        namespace = pod.namespace,
                        "host network on a host without unified cgroups: this pod's sockets cannot be told \
                         from others', so it has no series"
                    );
                }
            }
            return Ok(false);
        }
        if watched.netns.as_ref().is_some_and(|known| known.inode() == netns.inode()) {
            return Ok(false);
        }
        watched.host_network = false;
        self.maps.own_namespace(netns.inode(), Owner { slot: watched.slot, pod: watched.slot })?;
        info!(pod = pod.name, namespace = pod.namespace, netns = netns.inode(), "network namespace found");
        if let Some(old) = watched.netns.replace(netns) {
            self.maps.disown_namespace(old.inode())?;
        }
        Ok(true)
    }

    fn probes(&self) -> MutexGuard<'_, Probes> {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in the connections that are there already; two passes, so that one that ended during the first
    /// does not stay.
    fn adopt(&self, pod: &Pod, netns: &Netns) {
        let result = self.reconcile(&[netns]).and_then(|_| self.reconcile(&[netns]));
        if let Err(error) = result {
            warn!(pod = pod.name, namespace = pod.namespace, %error, "open connections are not taken in");
        }
    }

    /// Compares the table with the sockets of these namespaces; returns how many entries had ended unseen.
    fn reconcile(&self, namespaces: &[&Netns]) -> Result<u64, crate::probes::adopt::AdoptError> {
        let mut removed = 0;
        for netns in namespaces {
            let began = monotonic_ns();
            let pass = self.probes().adopt(netns.file())?;
            let owners = self.owners_in(netns);
            for (socket, connection) in self.maps.connections()? {
                let here = owners(connection.pod);
                if here && connection.seen != pass && connection.since_ns < began {
                    removed += u64::from(self.maps.correct(socket, &connection)?);
                }
            }
        }
        Ok(removed)
    }

    /// Tells whether a pod's slot has its sockets in a namespace. Called with the owners locked elsewhere, so
    /// it asks the kernel's map instead.
    fn owners_in<'a>(&'a self, netns: &Netns) -> impl Fn(Slot) -> bool + use<'a> {
        let owner = self.maps.owner_of_namespace(netns.inode());
        let is_host = netns.inode() == self.host_netns.inode();
        let named = self.maps.namespace_slots();
        move |pod| match owner {
            Some(owner) => owner.pod == pod,
            None => is_host && !named.contains(&pod),
        }
    }

    /// Compares the whole table with all watched sockets; returns how many entries had ended unseen. Entries
    /// that were missing come in.
    pub fn reconcile_all(&self) -> Result<u64, crate::probes::adopt::AdoptError> {
        let mut files = Vec::new();
        {
            let state = self.owners.lock();
            for watched in state.watched.values() {
                if let Some(netns) = &watched.netns {
                    files.push(netns.duplicate());
                }
            }
            if self.cgroups.mode == Mode::Unified && state.watched.values().any(|w| w.netns.is_none()) {
                files.push(self.host_netns.duplicate());
            }
        }
        let namespaces: Vec<_> = files.into_iter().flatten().collect();
        self.reconcile(&namespaces.iter().collect::<Vec<_>>())
    }

    /// Pods the source no longer names stay for the retention time, then everything of theirs goes.
    fn forget(&self, state: &mut State, named: &BTreeSet<String>, now: Instant) -> Result<(), ProbeError> {
        let mut over = Vec::new();
        for (uid, watched) in state.watched.iter_mut().filter(|(uid, _)| !named.contains(*uid)) {
            let since = *watched.gone.get_or_insert(now);
            if now.duration_since(since) >= self.retain {
                over.push(uid.clone());
            }
        }
        for uid in over {
            let Some(watched) = state.watched.remove(&uid) else { continue };
            for id in watched.cgroups.keys() {
                self.maps.disown_cgroup(*id)?;
            }
            if let Some(netns) = &watched.netns {
                self.maps.disown_namespace(netns.inode())?;
            }
            for port in &watched.ports {
                self.maps.declass(watched.slot, *port)?;
            }
            let slots: Vec<_> =
                std::iter::once(watched.slot).chain(watched.containers.into_values()).collect();
            self.maps.reset(&slots)?;
            for slot in slots {
                state.release(slot);
            }
            info!(pod = watched.pod.name, namespace = watched.pod.namespace, uid, "pod forgotten");
        }
        state.refused.retain(|refused| named.contains(refused.split('/').next().unwrap_or_default()));
        Ok(())
    }
}

/// A declared protocol as the kernel programs know it.
fn declared(protocol: Option<Declared>) -> u8 {
    match protocol {
        None => Protocol::Unread as u8,
        Some(Declared::Http1) => Protocol::Http1 as u8,
        Some(Declared::Http2) => Protocol::Http2 as u8,
        Some(Declared::Tls) => Protocol::Tls as u8,
    }
}

/// The clock of the kernel programs.
fn monotonic_ns() -> u64 {
    let now = nix::time::ClockId::CLOCK_MONOTONIC.now().map(Duration::from).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// A path from the pods file: absolute, or below a cgroup tree.
fn below(tree: &Path, given: &Path) -> PathBuf {
    if given.starts_with(tree) {
        given.to_owned()
    } else {
        tree.join(given.strip_prefix("/").unwrap_or(given))
    }
}
