//! One round: which pods are there, where are their sockets, and the kernel's maps accordingly.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use gt_common::owner::Slot;
use tracing::{info, warn};

use super::{
    Pod,
    netns::Netns,
    owners::{Owners, State, Watched},
    source::{Source, SourceError},
    tree::{PodDirs, container_id, subdirectories},
};
use crate::{
    kernel::cgroup::{Cgroups, Mode},
    probes::{ProbeError, maps::Maps},
};

/// What a tracker works with.
#[derive(Debug)]
pub struct Tracker {
    pub source: Source,
    /// Watch only pods with a container of this name.
    pub container: Option<String>,
    pub cgroups: Cgroups,
    pub proc: PathBuf,
    pub host_netns: u32,
    /// How long a pod that is gone keeps its series: the last RST comes after the pod, the scrape later still.
    pub retain: Duration,
    pub owners: Arc<Owners>,
    pub maps: Arc<Maps>,
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
    /// Brings owners and maps in step with the source; `now` decides what has been gone long enough.
    pub fn round(&self, now: Instant) -> Result<(), TrackError> {
        let pods = self.source.pods(self.container.as_deref())?;
        let dirs = PodDirs::scan(&self.cgroups.trees);
        let mut state = self.owners.lock();
        let named: BTreeSet<_> = pods.iter().map(|pod| pod.uid.clone()).collect();
        for pod in pods {
            self.see(&mut state, pod, &dirs)?;
        }
        self.forget(&mut state, &named, now)
    }

    fn see(&self, state: &mut State, pod: Pod, dirs: &PodDirs) -> Result<(), TrackError> {
        if !state.watched.contains_key(&pod.uid) {
            let Some(slot) = state.allocate() else {
                warn!(
                    pod = pod.name,
                    namespace = pod.namespace,
                    "not watched: all slots are taken; raise --slots"
                );
                return Ok(());
            };
            self.maps.reset(slot)?;
            info!(pod = pod.name, namespace = pod.namespace, uid = pod.uid, slot, "watching pod");
            let watched = Watched {
                pod: pod.clone(),
                slot,
                containers: BTreeMap::new(),
                cgroups: BTreeMap::new(),
                netns: None,
                host_network: false,
                gone: None,
            };
            state.watched.insert(pod.uid.clone(), watched);
        }
        let places = self.places(&pod, dirs);
        self.name_containers(state, &pod, &places)?;
        let Some(watched) = state.watched.get_mut(&pod.uid) else { return Ok(()) };
        watched.gone = None;
        self.own_cgroups(watched, &places)?;
        self.own_namespace(watched, &pod, &places)?;
        watched.pod = pod;
        Ok(())
    }

    /// The pod's cgroup directories.
    fn places(&self, pod: &Pod, dirs: &PodDirs) -> Vec<PathBuf> {
        match &pod.cgroup {
            Some(given) => {
                self.cgroups.trees.iter().map(|tree| below(tree, given)).filter(|p| p.is_dir()).collect()
            }
            None => dirs.of(&pod.uid).to_vec(),
        }
    }

    /// Containers get slots of their own only where a socket's cgroup tells them apart.
    fn name_containers(&self, state: &mut State, pod: &Pod, places: &[PathBuf]) -> Result<(), TrackError> {
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
                warn!(pod = pod.name, container = container.name, "no slot left: raise --slots");
                continue;
            };
            self.maps.reset(slot)?;
            if let Some(watched) = state.watched.get_mut(&pod.uid) {
                watched.containers.insert(container.name.clone(), slot);
            }
        }
        Ok(())
    }

    /// Sets the ids of all cgroups at and below the pod's; removed ones are taken out.
    fn own_cgroups(&self, watched: &mut Watched, places: &[PathBuf]) -> Result<(), TrackError> {
        if self.cgroups.mode != Mode::Unified {
            return Ok(());
        }
        let mut found = BTreeMap::new();
        for place in places {
            self.collect(watched, place, watched.slot, &mut found);
        }
        for (id, slot) in &found {
            if watched.cgroups.get(id) != Some(slot) {
                self.maps.own_cgroup(*id, *slot)?;
            }
        }
        // A container's cgroup that is gone keeps its sockets' owner until the pod goes: its last RST may
        // come after it, and ids are not reused while the kernel holds them.
        watched.cgroups.extend(found);
        Ok(())
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

    fn own_namespace(&self, watched: &mut Watched, pod: &Pod, places: &[PathBuf]) -> Result<(), TrackError> {
        if watched.netns.is_some() || watched.host_network {
            return Ok(());
        }
        let found = match &pod.netns {
            Some(path) => Netns::open(path).ok(),
            None => places.iter().find_map(|place| Netns::of_cgroup(place, &self.proc)),
        };
        let Some(netns) = found else { return Ok(()) };
        if netns.inode() == self.host_netns {
            watched.host_network = true;
            if self.cgroups.mode != Mode::Unified {
                warn!(
                    pod = pod.name,
                    namespace = pod.namespace,
                    "host network on a host without unified cgroups: this pod's sockets cannot be told from \
                     others', its counts stay unknown"
                );
            }
            return Ok(());
        }
        self.maps.own_namespace(netns.inode(), watched.slot)?;
        info!(pod = pod.name, namespace = pod.namespace, netns = netns.inode(), "network namespace found");
        watched.netns = Some(netns);
        Ok(())
    }

    /// Pods the source no longer names stay for the retention time, then everything of theirs goes.
    fn forget(&self, state: &mut State, named: &BTreeSet<String>, now: Instant) -> Result<(), TrackError> {
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
            for slot in std::iter::once(watched.slot).chain(watched.containers.into_values()) {
                state.release(slot);
            }
            info!(pod = watched.pod.name, namespace = watched.pod.namespace, uid, "pod forgotten");
        }
        Ok(())
    }
}

/// A path from the pods file: absolute, or below a cgroup tree.
fn below(tree: &Path, given: &Path) -> PathBuf {
    if given.starts_with(tree) {
        given.to_owned()
    } else {
        tree.join(given.strip_prefix("/").unwrap_or(given))
    }
}
