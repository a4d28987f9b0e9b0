//! Which cgroups are a pod's, and which of its containers'.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Instant,
};

use gt_common::owner::{Owner, Slot};
use tracing::warn;

use super::{
    Tracker,
    watched::{OwnedCgroup, Watched},
};
use crate::{
    kernel::cgroup::Mode,
    pods::{
        Pod,
        cgroup_path::{Part, container_id},
        tree::{PodDirs, subdirectories},
    },
    probes::ProbeError,
};

/// A cgroup of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// Inode number; on v2 the id by which the kernel knows the cgroup.
    pub(super) id: u64,
    /// Name of the container it belongs to, where that is known.
    pub(super) container: Option<String>,
    /// Whether only the runtime's own processes live there.
    pub(super) helper: bool,
    /// Whether a container made it, not the runtime.
    pub(super) nested: bool,
}

impl Tracker {
    /// The cgroups of a pod, each after the one above it.
    pub(super) fn places(&self, pod: &Pod, dirs: &PodDirs) -> Vec<Place> {
        let trees = &self.settings.cgroups.trees;
        if let Some(given) = &pod.cgroup {
            let mut places = Vec::new();
            for tree in trees {
                self.collect(pod, &below(tree, given), None, &mut places);
            }
            return places;
        }
        let is_watched = |uid: &str| uid == pod.uid || self.state.watched.contains_key(uid);
        let place = |cgroup: &crate::pods::tree::Cgroup| {
            // A pod inside another one that is watched: its sockets are the outer one's.
            let own = cgroup.place.owner(is_watched).filter(|owner| owner.uid == pod.uid)?;
            let id = own.part.container();
            let container =
                pod.containers.iter().find(|container| id.is_some() && container.id.as_deref() == id);
            Some(Place {
                path: cgroup.path.clone(),
                id: cgroup.id,
                container: container.map(|container| container.name.clone()),
                helper: own.part == Part::Helper,
                nested: matches!(own.part, Part::BelowContainer(_)),
            })
        };
        dirs.cgroups(&pod.uid).filter_map(place).collect()
    }

    /// A cgroup that the source names, and all below it.
    fn collect(&self, pod: &Pod, directory: &Path, inherited: Option<&str>, places: &mut Vec<Place>) {
        let Ok(metadata) = fs::metadata(directory) else { return };
        if !metadata.is_dir() {
            return;
        }
        let id = directory.file_name().and_then(|name| name.to_str()).and_then(container_id);
        let own = pod.containers.iter().find(|container| {
            let by_id = id.is_some() && container.id.as_deref() == id;
            let trees = &self.settings.cgroups.trees;
            by_id
                || container
                    .cgroup
                    .as_ref()
                    .is_some_and(|given| trees.iter().any(|tree| below(tree, given) == directory))
        });
        let container = own.map(|container| container.name.as_str()).or(inherited);
        places.push(Place {
            path: directory.to_owned(),
            id: metadata.ino(),
            container: container.map(str::to_owned),
            helper: false,
            nested: false,
        });
        for child in subdirectories(directory) {
            self.collect(pod, &child, container, places);
        }
    }

    /// Containers get slots of their own only where a socket's cgroup tells them apart.
    pub(super) fn name_containers(&mut self, watched: &mut Watched, pod: &Pod, places: &[Place]) {
        if self.settings.cgroups.mode != Mode::Unified || places.is_empty() {
            return;
        }
        for container in &pod.containers {
            let known = container.id.is_some() || container.cgroup.is_some();
            if !known || watched.containers.contains_key(&container.name) {
                continue;
            }
            match self.state.free.take() {
                Some(slot) => {
                    watched.containers.insert(container.name.clone(), slot);
                }
                None if self.state.refused.insert((pod.uid.clone(), Some(container.name.clone()))) => {
                    warn!(pod = pod.name, container = container.name, "counted with its pod: raise --slots");
                }
                None => {}
            }
        }
    }

    /// Sets the ids of all cgroups at and below the pod's; whether there were new ones. One that is gone keeps
    /// its sockets' owner for the retention time: its last RST may come after it. When the kernel's map is full,
    /// those that are gone make room; what finds none even so is told once, and its sockets go by their
    /// namespace.
    pub(super) fn own_cgroups(
        &self,
        watched: &mut Watched,
        pod: &Pod,
        places: &[Place],
        now: Instant,
    ) -> Result<bool, ProbeError> {
        if self.settings.cgroups.mode != Mode::Unified {
            return Ok(false);
        }
        let slot_of = |place: &Place| {
            let container = place.container.as_ref().and_then(|name| watched.containers.get(name));
            container.copied().unwrap_or(watched.slot)
        };
        let found: BTreeMap<u64, Slot> = places.iter().map(|place| (place.id, slot_of(place))).collect();
        for (_, owned) in watched.cgroups.iter_mut().filter(|(id, _)| !found.contains_key(id)) {
            owned.gone.get_or_insert(now);
        }
        self.disown_gone(watched, |since| now.duration_since(since) >= self.settings.retain)?;
        let mut new = false;
        let mut full = None;
        for (id, slot) in found {
            if watched.cgroups.get(&id).is_none_or(|known| known.slot != slot) {
                let owner = Owner { slot, pod: watched.slot };
                let mut owned = self.maps.own_cgroup(id, owner);
                if owned.is_err() && self.disown_gone(watched, |_| true)? {
                    owned = self.maps.own_cgroup(id, owner);
                }
                if let Err(error) = owned {
                    full = Some(error);
                    break;
                }
                new = true;
            }
            watched.cgroups.insert(id, OwnedCgroup { slot, gone: None });
        }
        if let Some(error) = &full
            && !watched.lacks_cgroups
        {
            warn!(
                pod = pod.name,
                namespace = pod.namespace,
                %error,
                "not all of its cgroups are told apart; raise --slots: there are four cgroups to a slot"
            );
        }
        watched.lacks_cgroups = full.is_some();
        Ok(new)
    }

    /// Gives up cgroups whose directory is gone, `which` by the time since when; whether there were any.
    fn disown_gone(
        &self,
        watched: &mut Watched,
        which: impl Fn(Instant) -> bool,
    ) -> Result<bool, ProbeError> {
        let over: Vec<_> = watched
            .cgroups
            .iter()
            .filter(|(_, owned)| owned.gone.is_some_and(&which))
            .map(|(id, _)| *id)
            .collect();
        for id in &over {
            self.maps.disown_cgroup(*id, watched.slot)?;
            watched.cgroups.remove(id);
        }
        Ok(!over.is_empty())
    }

    /// What was a pod's before it was gone is its own again, unless another pod has it: meanwhile another may have
    /// had it, and given it up.
    pub(super) fn take_back(&self, watched: &mut Watched) -> Result<(), ProbeError> {
        let others: Vec<_> = self.state.watched.values().filter(|other| other.gone.is_none()).collect();
        for (id, owned) in &watched.cgroups {
            if !others.iter().any(|other| other.cgroups.contains_key(id)) {
                self.maps.own_cgroup(*id, Owner { slot: owned.slot, pod: watched.slot })?;
            }
        }
        if let Some(netns) = &watched.netns {
            if others
                .iter()
                .any(|other| other.netns.as_ref().is_some_and(|held| held.inode() == netns.inode()))
            {
                watched.netns = None;
            } else {
                self.maps.own_namespace(netns.inode(), Owner { slot: watched.slot, pod: watched.slot })?;
            }
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
