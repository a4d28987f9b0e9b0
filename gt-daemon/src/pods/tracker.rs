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
    connection::{CutKey, Lane, PodFacts, Protocol},
    owner::{Owner, Slot},
};
use tracing::{info, warn};

use super::{
    Class, Declared, Pod,
    cgroup_path::container_id,
    netns::Netns,
    owners::{Census, Name, Owners, Published, Retired},
    source::{Source, SourceError},
    tree::{PodDirs, PodTree, subdirectories, watch_limit},
    watched::{FreeSlots, OwnedCgroup, Watched},
};
use crate::{
    kernel::cgroup::{Cgroups, Mode},
    probes::{ProbeError, Probes, adopt::AdoptError, maps::Maps},
};

/// What a tracker is told once.
pub struct Settings {
    pub source: Source,
    /// Watch only pods with a container of this name.
    pub container: Option<String>,
    /// Inbound ports of every pod that are not user traffic.
    pub ports: Vec<(u16, Class)>,
    /// Whether every state change of a watched pod's connections becomes an event.
    pub state_events: bool,
    pub cgroups: Cgroups,
    pub proc: PathBuf,
    pub host_netns: Netns,
    /// How long a pod that is gone keeps its series: the last RST comes after the pod, the scrape later still.
    pub retain: Duration,
}

/// Follows the pods of this node.
pub struct Tracker {
    settings: Settings,
    /// Where each round's result is published.
    owners: Arc<Owners>,
    maps: Arc<Maps>,
    /// For the connections that are there before their pod is watched.
    probes: Arc<Mutex<Probes>>,
    tree: PodTree,
    /// Whether the last word in the log is that cgroups are followed.
    told_followed: bool,
    state: State,
}

/// What the tracker keeps from round to round.
#[derive(Debug)]
struct State {
    watched: BTreeMap<String, Watched>,
    free: FreeSlots,
    /// Pods (by UID) and containers (UID/name) that found no slot: told once.
    refused: BTreeSet<String>,
    retired: BTreeMap<Name, Retired>,
}

/// How long a pod that is gone, and whose cgroup is, keeps its network namespace open. Its last packets come after it; but an open
/// namespace keeps its devices and addresses alive, which an observer must not do for long.
const NETNS_GRACE: Duration = Duration::from_secs(10);

/// Why a round failed.
#[derive(Debug, thiserror::Error)]
pub enum TrackError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Probe(#[from] ProbeError),
}

impl Tracker {
    /// Nothing is watched yet.
    #[must_use]
    pub fn new(settings: Settings, owners: Arc<Owners>, maps: Arc<Maps>, probes: Arc<Mutex<Probes>>) -> Self {
        let state = State {
            watched: BTreeMap::new(),
            free: FreeSlots::new(maps.slots()),
            refused: BTreeSet::new(),
            retired: BTreeMap::new(),
        };
        let limit = watch_limit(&settings.proc);
        let tree = PodTree::new(&settings.cgroups.pod_trees(), limit, Instant::now());
        Self { settings, owners, maps, probes, tree, told_followed: true, state }
    }

    /// Brings owners and maps in step with the source; `now` decides what has been gone long enough. A pod
    /// that cannot be watched is told in the log and does not keep the others from it.
    pub fn round(&mut self, now: Instant) -> Result<(), TrackError> {
        let pods = self.settings.source.pods(self.settings.container.as_deref())?;
        let dirs = self.dirs(now);
        let named: BTreeSet<_> = pods.iter().map(|pod| pod.uid.clone()).collect();
        for (uid, watched) in &mut self.state.watched {
            if !named.contains(uid) {
                watched.gone.get_or_insert(now);
            }
        }
        for pod in pods {
            let name = format!("{}/{}", pod.namespace, pod.name);
            if let Err(error) = self.see(pod, &dirs, now) {
                warn!(pod = name, %error, "not fully watched");
            }
        }
        let forgotten = self.forget(&named, &dirs, now);
        self.publish();
        Ok(forgotten?)
    }

    /// The pods' cgroups as they are now.
    fn dirs(&mut self, now: Instant) -> Arc<PodDirs> {
        let overflows = self.tree.overflows();
        self.tree.refresh(now);
        if self.tree.overflows() != overflows {
            warn!("the kernel's queue of changes to cgroups was full: all were read again");
        }
        match (self.tree.fault(), self.told_followed) {
            (Some(fault), true) => warn!("cgroups are read in every round, which costs more: {fault}"),
            (None, false) => info!("cgroups are followed again"),
            _ => {}
        }
        self.told_followed = self.tree.fault().is_none();
        self.tree.pods()
    }

    /// Name of the source of pods.
    #[must_use]
    pub fn source(&self) -> &'static str {
        self.settings.source.name()
    }

    /// How many pods are watched now.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.state.watched.values().filter(|watched| watched.gone.is_none()).count()
    }

    fn publish(&mut self) {
        let mut published = Published { census: self.census(), ..Published::default() };
        for watched in self.state.watched.values().filter(|watched| watched.is_attributed()) {
            published.owners.extend(watched.owners());
        }
        published.owners.sort_by(|a, b| (&a.name, &a.uid).cmp(&(&b.name, &b.uid)));
        let live: BTreeSet<_> = published.owners.iter().map(|owner| &owner.name).collect();
        self.state.retired.retain(|name, _| live.contains(name));
        published.retired.clone_from(&self.state.retired);
        self.owners.publish(published);
    }

    fn census(&self) -> Census {
        let mut census = Census::default();
        for watched in self.state.watched.values() {
            if watched.gone.is_some() {
                census.gone += 1;
            } else if watched.is_attributed() {
                census.watched += 1;
            } else {
                census.unattributed += 1;
            }
        }
        census.refused = self.state.refused.iter().filter(|refused| !refused.contains('/')).count() as u64;
        census
    }

    fn see(&mut self, pod: Pod, dirs: &PodDirs, now: Instant) -> Result<(), ProbeError> {
        let mut watched = match self.state.watched.remove(&pod.uid) {
            Some(watched) => watched,
            None => match self.begin(&pod)? {
                Some(watched) => watched,
                None => return Ok(()),
            },
        };
        watched.gone = None;
        let told = if watched.pod.protocol == pod.protocol && watched.pod.ports == pod.ports {
            Ok(())
        } else {
            self.tell(&mut watched, &pod)
        };
        let seen = self.locate(&mut watched, &pod, dirs, now);
        watched.pod = pod;
        if let Ok(Some(place)) = &seen {
            self.adopt(&watched, *place);
        }
        self.state.watched.insert(watched.pod.uid.clone(), watched);
        told.and(seen.map(drop))
    }

    /// Tells the kernel programs a pod's ports and protocol; connections that are open keep what they have.
    fn tell(&self, watched: &mut Watched, pod: &Pod) -> Result<(), ProbeError> {
        let interest = u8::from(self.settings.state_events);
        let facts = PodFacts { protocol: declared(pod.protocol), interest, ..PodFacts::default() };
        self.maps.tell(watched.slot, facts)?;
        for port in std::mem::take(&mut watched.ports) {
            self.maps.declass(watched.slot, port)?;
        }
        for (port, class) in self.settings.ports.iter().chain(&pod.ports) {
            let lane = match class {
                Class::Health => Lane::Health,
                Class::Admin => Lane::Admin,
            };
            self.maps.class(watched.slot, *port, lane)?;
            watched.ports.insert(*port);
        }
        Ok(())
    }

    /// Finds what in the kernel leads to the pod; where open connections have to be taken in, if anywhere.
    fn locate(
        &mut self,
        watched: &mut Watched,
        pod: &Pod,
        dirs: &PodDirs,
        now: Instant,
    ) -> Result<Option<Place>, ProbeError> {
        let places = self.places(pod, dirs);
        self.name_containers(watched, pod, &places);
        let new_cgroups = self.own_cgroups(watched, pod, &places, now)?;
        let new_namespace = self.own_namespace(watched, pod, &places)?;
        Ok(match (new_namespace, new_cgroups && watched.netns.is_none()) {
            (true, _) => Some(Place::OwnNamespace),
            // In the host's network its sockets are known by their cgroups.
            (false, true) => Some(Place::Host),
            (false, false) => None,
        })
    }

    /// Gives a new pod its slot and tells the kernel programs its ports; `None` when no slot is left.
    fn begin(&mut self, pod: &Pod) -> Result<Option<Watched>, ProbeError> {
        let Some(slot) = self.state.free.take() else {
            if self.state.refused.insert(pod.uid.clone()) {
                warn!(
                    pod = pod.name,
                    namespace = pod.namespace,
                    "not watched: all slots are taken; raise --slots"
                );
            }
            return Ok(None);
        };
        self.state.refused.remove(&pod.uid);
        let mut watched = Watched::new(pod.clone(), slot);
        if let Err(error) = self.tell(&mut watched, pod) {
            self.state.free.give_back(slot);
            return Err(error);
        }
        info!(pod = pod.name, namespace = pod.namespace, uid = pod.uid, slot, "watching pod");
        Ok(Some(watched))
    }

    /// The pod's cgroup directories.
    fn places(&self, pod: &Pod, dirs: &PodDirs) -> Vec<PathBuf> {
        match &pod.cgroup {
            Some(given) => self
                .settings
                .cgroups
                .trees
                .iter()
                .map(|tree| below(tree, given))
                .filter(|path| path.is_dir())
                .collect(),
            None => dirs.of(&pod.uid),
        }
    }

    /// Containers get slots of their own only where a socket's cgroup tells them apart.
    fn name_containers(&mut self, watched: &mut Watched, pod: &Pod, places: &[PathBuf]) {
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
                None if self.state.refused.insert(format!("{}/{}", pod.uid, container.name)) => {
                    warn!(pod = pod.name, container = container.name, "counted with its pod: raise --slots");
                }
                None => {}
            }
        }
    }

    /// Sets the ids of all cgroups at and below the pod's; whether there were new ones. One that is gone keeps
    /// its sockets' owner for the retention time: its last RST may come after it.
    fn own_cgroups(
        &self,
        watched: &mut Watched,
        pod: &Pod,
        places: &[PathBuf],
        now: Instant,
    ) -> Result<bool, ProbeError> {
        if self.settings.cgroups.mode != Mode::Unified {
            return Ok(false);
        }
        let mut found = BTreeMap::new();
        for place in places {
            self.collect(watched, pod, place, watched.slot, &mut found);
        }
        let mut new = false;
        for (id, slot) in &found {
            if watched.cgroups.get(id).is_none_or(|known| known.slot != *slot) {
                self.maps.own_cgroup(*id, Owner { slot: *slot, pod: watched.slot })?;
                new = true;
            }
            watched.cgroups.insert(*id, OwnedCgroup { slot: *slot, gone: None });
        }
        let mut over = Vec::new();
        for (id, owned) in watched.cgroups.iter_mut().filter(|(id, _)| !found.contains_key(id)) {
            let since = *owned.gone.get_or_insert(now);
            if now.duration_since(since) >= self.settings.retain {
                over.push(*id);
            }
        }
        for id in over {
            watched.cgroups.remove(&id);
            self.maps.disown_cgroup(id, watched.slot)?;
        }
        Ok(new)
    }

    fn collect(
        &self,
        watched: &Watched,
        pod: &Pod,
        directory: &Path,
        inherited: Slot,
        found: &mut BTreeMap<u64, Slot>,
    ) {
        let slot = self.container_slot(watched, pod, directory).unwrap_or(inherited);
        if let Ok(metadata) = fs::metadata(directory) {
            found.insert(metadata.ino(), slot);
        }
        for child in subdirectories(directory) {
            self.collect(watched, pod, &child, slot, found);
        }
    }

    /// The pod as this round read it has a new container's id; the record has it a round later.
    fn container_slot(&self, watched: &Watched, pod: &Pod, directory: &Path) -> Option<Slot> {
        let name = directory.file_name()?.to_str()?;
        let id = container_id(name);
        let container = pod.containers.iter().find(|container| {
            let by_id = id.is_some() && container.id.as_deref() == id;
            let by_path = container.cgroup.as_ref().is_some_and(|given| {
                self.settings.cgroups.trees.iter().any(|tree| below(tree, given) == directory)
            });
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
        let host = self.settings.host_netns.inode();
        let found = match &pod.netns {
            Some(path) => {
                let opened = Netns::open(path);
                // A path that is not there yet is waited for; any other fault is told, once.
                let fault = match &opened {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => Some(error.to_string()),
                    _ => None,
                };
                if let Some(fault) = fault
                    && watched.fault.as_ref() != Some(&fault)
                {
                    warn!(
                        pod = pod.name,
                        namespace = pod.namespace,
                        "no series: cannot use the network namespace {}: {fault}",
                        path.display()
                    );
                    watched.fault = Some(fault);
                }
                opened.ok()
            }
            None => Netns::of_cgroups(places, &self.settings.proc, host),
        };
        let Some(netns) = found else { return Ok(false) };
        if netns.inode() == host {
            if watched.netns.is_none() && !watched.host_network {
                watched.host_network = true;
                if self.settings.cgroups.mode != Mode::Unified {
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
        // Two pods cannot be told apart in one namespace: the first keeps it until it is gone.
        let holder = self.state.watched.values().find(|other| {
            other.gone.is_none() && other.netns.as_ref().is_some_and(|held| held.inode() == netns.inode())
        });
        if let Some(holder) = holder {
            let fault = format!("{}/{} has it", holder.pod.namespace, holder.pod.name);
            if watched.fault.as_ref() != Some(&fault) {
                warn!(
                    pod = pod.name,
                    namespace = pod.namespace,
                    netns = netns.inode(),
                    "no counts by this network namespace: {fault}"
                );
                watched.fault = Some(fault);
            }
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

    fn probes(&self) -> MutexGuard<'_, Probes> {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in the connections that are there already; two passes, so that one that ended during the first
    /// does not stay.
    fn adopt(&self, watched: &Watched, place: Place) {
        let netns = match place {
            Place::OwnNamespace => watched.netns.as_ref(),
            Place::Host => Some(&self.settings.host_netns),
        };
        let Some(netns) = netns else { return };
        let slots = BTreeSet::from([watched.slot]);
        let result = self.reconcile(netns, &slots).and_then(|_| self.reconcile(netns, &slots));
        if let Err(error) = result {
            let Pod { namespace, name, .. } = &watched.pod;
            warn!(pod = name, namespace, %error, "open connections are not taken in");
        }
    }

    /// Compares the entries of some pods with the sockets of the namespace they live in; returns how many had
    /// ended unseen.
    fn reconcile(&self, netns: &Netns, pods: &BTreeSet<Slot>) -> Result<u64, AdoptError> {
        // An entry bears the time of the packet that made it, a little before it was in the table.
        let began = monotonic_ns().saturating_sub(1_000_000);
        let pass = self.probes().adopt(netns.file())?;
        let mut removed = 0;
        for (socket, connection) in self.maps.connections()? {
            if pods.contains(&connection.pod) && connection.seen != pass && connection.since_ns < began {
                removed += u64::from(self.maps.correct(socket, &connection)?);
            }
        }
        Ok(removed)
    }

    /// Compares the whole table with all watched sockets; returns how many entries had ended unseen. Entries
    /// that were missing come in.
    pub fn reconcile_all(&self) -> Result<u64, AdoptError> {
        let mut removed = 0;
        let mut in_hosts_network = BTreeSet::new();
        for watched in self.state.watched.values() {
            match &watched.netns {
                Some(netns) => removed += self.reconcile(netns, &BTreeSet::from([watched.slot]))?,
                // One that is gone has given its namespace up: nothing more can be seen of it.
                None if watched.had_netns => {}
                None => {
                    in_hosts_network.insert(watched.slot);
                }
            }
        }
        if self.settings.cgroups.mode == Mode::Unified && !in_hosts_network.is_empty() {
            removed += self.reconcile(&self.settings.host_netns, &in_hosts_network)?;
        }
        Ok(removed)
    }

    /// Pods the source no longer names stay for the retention time, then everything of theirs goes.
    fn forget(&mut self, named: &BTreeSet<String>, dirs: &PodDirs, now: Instant) -> Result<(), ProbeError> {
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
        for uid in over {
            if let Some(watched) = self.state.watched.remove(&uid) {
                self.release(&watched)?;
            }
        }
        self.state.refused.retain(|refused| named.contains(refused.split('/').next().unwrap_or_default()));
        Ok(())
    }

    /// Takes everything of a pod out of the kernel and gives its slots back. Its counts live on where its name
    /// does.
    fn release(&mut self, watched: &Watched) -> Result<(), ProbeError> {
        for id in watched.cgroups.keys() {
            self.maps.disown_cgroup(*id, watched.slot)?;
        }
        for port in &watched.ports {
            self.maps.declass(watched.slot, *port)?;
        }
        let owners: Vec<_> = watched.owners().collect();
        let cuts = self.maps.cuts()?;
        for owner in &owners {
            let retired = self.state.retired.entry(owner.name.clone()).or_default();
            retired.counters.add(&self.maps.counters(owner.slot)?);
            for (key, count) in cuts.iter().filter(|(key, _)| key.slot == owner.slot) {
                *retired.cuts.entry(CutKey { slot: 0, ..*key }).or_default() += count;
            }
        }
        let slots: Vec<_> = owners.iter().map(|owner| owner.slot).collect();
        self.maps.reset(&slots)?;
        for slot in slots {
            self.state.free.give_back(slot);
        }
        let Pod { namespace, name, uid, .. } = &watched.pod;
        info!(pod = name, namespace, uid, "pod forgotten");
        Ok(())
    }
}

/// Where a pod's sockets are walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    OwnNamespace,
    Host,
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
