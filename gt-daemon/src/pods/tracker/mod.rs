//! One round: which pods are there, where are their sockets, and the kernel's maps accordingly.

mod cgroups;
mod forget;
mod namespace;
mod table;
mod watched;

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::BorrowedFd,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use gt_common::{
    connection::{Lane, Protocol},
    counters::Counters,
};
use tracing::{info, warn};

pub use self::table::Checked;
use self::{
    table::Sockets,
    watched::{FreeSlots, Watched},
};
use super::{
    Class, Declared, Pod,
    netns::Netns,
    owners::{Census, Name, Owners, Published},
    source::{Place as Asked, Source},
    tree::{PodDirs, PodTree, watch_limit},
};
use crate::{
    kernel::cgroup::Cgroups,
    probes::{ProbeError, Probes, maps::Maps},
};

/// What a tracker is told once.
pub struct Settings {
    pub source: Box<dyn Source>,
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
    /// What the source told last.
    known: Vec<Pod>,
    /// The namespaces (by inode number) that the comparison of the table under way has gone over.
    checked: BTreeSet<u32>,
    state: State,
}

/// What the tracker keeps from round to round.
#[derive(Debug)]
struct State {
    watched: BTreeMap<String, Watched>,
    free: FreeSlots,
    /// Pods (by UID) and containers (by UID and name) that found no slot: told once.
    refused: BTreeSet<(String, Option<String>)>,
    /// Why pods (by UID) are not fully watched, as it was told.
    faults: BTreeMap<String, String>,
    retired: BTreeMap<Name, Counters>,
}

impl Tracker {
    /// Nothing is watched yet.
    #[must_use]
    pub fn new(settings: Settings, owners: Arc<Owners>, maps: Arc<Maps>, probes: Arc<Mutex<Probes>>) -> Self {
        let state = State {
            watched: BTreeMap::new(),
            free: FreeSlots::new(maps.slots()),
            refused: BTreeSet::new(),
            faults: BTreeMap::new(),
            retired: BTreeMap::new(),
        };
        let limit = watch_limit(&settings.proc);
        let tree = PodTree::new(&settings.cgroups.pod_trees(), limit, Instant::now());
        Self {
            settings,
            owners,
            maps,
            probes,
            tree,
            told_followed: true,
            known: Vec::new(),
            checked: BTreeSet::new(),
            state,
        }
    }

    /// Brings owners and maps in step with the source; `now` decides what has been gone long enough. Returns the
    /// places that the source asked, and how each fares. What keeps the kernel's maps from being right is a fault
    /// of all of them.
    pub fn round(&mut self, now: Instant) -> Vec<Asked> {
        let mut reading = self.settings.source.read(now);
        // Without news the pods known before stay, and their cgroups and processes are followed all the same.
        if let Some(pods) = reading.pods {
            self.known = pods;
        }
        if let Err(error) = self.follow(now) {
            for place in &mut reading.places {
                place.fault.get_or_insert_with(|| error.to_string());
            }
        }
        reading.places
    }

    /// A pod that cannot be watched is told in the log and does not keep the others from it.
    fn follow(&mut self, now: Instant) -> Result<(), ProbeError> {
        self.follow_cgroups(now);
        let dirs = self.tree.pods();
        let named: BTreeSet<_> = self.known.iter().map(|pod| pod.uid.clone()).collect();
        for (uid, watched) in &mut self.state.watched {
            if !named.contains(uid) {
                watched.gone.get_or_insert(now);
            }
        }
        let mut fresh = Vec::new();
        let pods = std::mem::take(&mut self.known);
        for pod in &pods {
            let fault = self.see(pod, &dirs, now, &mut fresh).err().map(|error| error.to_string());
            self.tell_fault(pod, fault);
        }
        self.state.faults.retain(|uid, _| named.contains(uid));
        self.known = pods;
        self.adopt(&fresh);
        let over = self.forget(&named, &dirs, now);
        self.publish();
        self.reuse(&over?)
    }

    /// Readable when cgroups have come or gone; `None` while they are only read.
    #[must_use]
    pub fn cgroup_changes(&self) -> Option<BorrowedFd<'_>> {
        self.tree.fd()
    }

    /// Whether a pod was first seen a short time ago and nothing in the kernel leads to it yet: its first process
    /// makes no noise when it comes.
    #[must_use]
    pub fn is_waiting(&self, now: Instant) -> bool {
        const PATIENCE: Duration = Duration::from_secs(30);

        self.state.watched.values().any(|watched| {
            watched.gone.is_none()
                && !watched.is_attributed()
                && !watched.host_network
                && now.duration_since(watched.since) < PATIENCE
        })
    }

    /// Follows the changes of cgroups; whether one of a pod may have come or gone, and a round is worth while.
    pub fn follow_cgroups(&mut self, now: Instant) -> bool {
        let overflows = self.tree.overflows();
        let changed = self.tree.refresh(now);
        if self.tree.overflows() != overflows {
            warn!("the kernel's queue of changes to cgroups was full: all were read again");
        }
        match (self.tree.fault(), self.told_followed) {
            (Some(fault), true) => warn!("cgroups are read in every round, which costs more: {fault}"),
            (None, false) => info!("cgroups are followed again"),
            _ => {}
        }
        self.told_followed = self.tree.fault().is_none();
        changed
    }

    /// Says once why a pod is not fully watched.
    fn tell_fault(&mut self, pod: &Pod, fault: Option<String>) {
        let told = match &fault {
            Some(fault) => self.state.faults.insert(pod.uid.clone(), fault.clone()),
            None => self.state.faults.remove(&pod.uid),
        };
        if let Some(fault) = fault.filter(|fault| told.as_ref() != Some(fault)) {
            warn!(pod = pod.name, namespace = pod.namespace, "not fully watched: {fault}");
        }
    }

    /// How many pods are watched now.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.state.watched.values().filter(|watched| watched.gone.is_none()).count()
    }

    fn publish(&mut self) {
        let mut published = Published { census: self.census(), ..Published::default() };
        for watched in self.state.watched.values_mut() {
            if watched.is_attributed() {
                published.owners.extend(watched.owners());
            }
            published.pods.push(watched.followed());
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
        census.refused =
            self.state.refused.iter().filter(|(_, container)| container.is_none()).count() as u64;
        census
    }

    /// Follows one pod; notes in `fresh` where open connections have to be taken in, if anywhere.
    fn see(
        &mut self,
        pod: &Pod,
        dirs: &PodDirs,
        now: Instant,
        fresh: &mut Vec<(String, Sockets)>,
    ) -> Result<(), ProbeError> {
        let mut watched = match self.state.watched.remove(&pod.uid) {
            Some(watched) => watched,
            None => match self.begin(pod, now)? {
                Some(watched) => watched,
                None => return Ok(()),
            },
        };
        let returned = if watched.gone.take().is_some() { self.take_back(&mut watched) } else { Ok(()) };
        let told = if watched.pod.protocol == pod.protocol && watched.pod.ports == pod.ports {
            Ok(())
        } else {
            self.tell(&mut watched, pod)
        };
        let located = self.locate(&mut watched, pod, dirs, now).map(|sockets| {
            fresh.extend(sockets.map(|sockets| (pod.uid.clone(), sockets)));
        });
        watched.tell_unfound(pod, now);
        if *watched.pod != *pod {
            watched.pod = Arc::new(pod.clone());
        }
        self.state.watched.insert(pod.uid.clone(), watched);
        returned.and(told).and(located)
    }

    /// Finds what in the kernel leads to the pod; where open connections have to be taken in, if anywhere.
    fn locate(
        &mut self,
        watched: &mut Watched,
        pod: &Pod,
        dirs: &PodDirs,
        now: Instant,
    ) -> Result<Option<Sockets>, ProbeError> {
        let places = self.places(pod, dirs);
        self.name_containers(watched, pod, &places);
        let new_cgroups = self.own_cgroups(watched, pod, &places, now)?;
        let new_namespace = self.own_namespace(watched, pod, &places, now)?;
        Ok(match (new_namespace, new_cgroups && watched.netns.is_none()) {
            (true, _) => Some(Sockets::OwnNamespace),
            // In the host's network its sockets are known by their cgroups.
            (false, true) => Some(Sockets::Host),
            (false, false) => None,
        })
    }

    /// Tells the kernel programs a pod's ports and protocol; connections that are open keep what they have.
    fn tell(&self, watched: &mut Watched, pod: &Pod) -> Result<(), ProbeError> {
        self.maps.declare(watched.slot, declared(pod.protocol), self.settings.state_events)?;
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

    /// Gives a new pod its slot and tells the kernel programs its ports; `None` when no slot is left.
    fn begin(&mut self, pod: &Pod, now: Instant) -> Result<Option<Watched>, ProbeError> {
        let Some(slot) = self.state.free.take() else {
            if self.state.refused.insert((pod.uid.clone(), None)) {
                warn!(
                    pod = pod.name,
                    namespace = pod.namespace,
                    "not watched: all slots are taken; raise --slots"
                );
            }
            return Ok(None);
        };
        self.state.refused.remove(&(pod.uid.clone(), None));
        let mut watched = Watched::new(pod.clone(), slot, now);
        if let Err(error) = self.tell(&mut watched, pod) {
            // What was told before the fault must not become the next one's.
            for port in &watched.ports {
                self.maps.declass(slot, *port)?;
            }
            self.state.free.give_back(slot);
            return Err(error);
        }
        info!(pod = pod.name, namespace = pod.namespace, uid = pod.uid, slot, "watching pod");
        Ok(Some(watched))
    }
}

/// A declared protocol as the kernel programs know it.
fn declared(protocol: Option<Declared>) -> Protocol {
    match protocol {
        None => Protocol::Unread,
        Some(Declared::Http1) => Protocol::Http1,
        Some(Declared::Http2) => Protocol::Http2,
        Some(Declared::Tls) => Protocol::Tls,
    }
}
