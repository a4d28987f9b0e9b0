//! The tracker's own record of each watched pod, and the slots left to give away.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use gt_common::owner::{SELF_CHECK, Slot};
use tracing::warn;

use super::cgroups::Place;
use crate::pods::{
    Pod,
    netns::Netns,
    owners::{Followed, Name, Owner},
};

/// How often the processes of a pod are looked at although nothing has changed: a sandbox may be made anew in the
/// cgroups that are there.
const LOOK: Duration = Duration::from_secs(5);

/// For how long a change of cgroups may be followed by one of processes, which makes no noise.
const CHANGING: Duration = Duration::from_secs(2);

/// For how long a new pod's processes may be on their way into its namespace.
const UNSETTLED: Duration = Duration::from_secs(30);

/// After this time a place that a pods file names, and that leads nowhere, is told: until then it may be on its way.
const UNFOUND: Duration = Duration::from_secs(15);

/// A cgroup id set in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnedCgroup {
    pub(super) slot: Slot,
    /// Since when its directory is gone.
    pub(super) gone: Option<Instant>,
}

/// A watched pod: its slots, and what in the kernel leads to them.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) pod: Arc<Pod>,
    /// The slot for what is known to be the pod's, but not which container's.
    pub(super) slot: Slot,
    /// Slots by container name.
    pub(super) containers: BTreeMap<String, Slot>,
    /// Cgroup ids set in the kernel.
    pub(super) cgroups: BTreeMap<u64, OwnedCgroup>,
    /// Whether some of its cgroups found no room in the kernel's map: told once.
    pub(super) lacks_cgroups: bool,
    /// The namespace, held open; `None` when not found yet, when it is the host's, or when the pod is gone.
    pub(super) netns: Option<Netns>,
    /// Whether the pod was found to live in the host's network namespace.
    pub(super) host_network: bool,
    /// Whether a namespace of its own was ever found: its counts stay known when the pod is gone.
    pub(super) had_netns: bool,
    /// Why its network namespace cannot be used, as it was last told.
    pub(super) fault: Option<String>,
    /// Ports the kernel programs were told of.
    pub(super) ports: BTreeSet<u16>,
    /// Since when the pod is watched.
    pub(super) since: Instant,
    /// Since when the source no longer names the pod.
    pub(super) gone: Option<Instant>,
    /// How its processes were looked at last.
    looked: Option<Look>,
    /// As it was published last.
    published: Option<Arc<Followed>>,
}

/// A look at the processes of a pod's cgroups.
#[derive(Debug)]
struct Look {
    ids: Vec<u64>,
    /// Since when the cgroups are these.
    changed: Instant,
    last: Option<Instant>,
}

impl Watched {
    /// A pod of which only the source has told.
    pub(super) fn new(pod: Pod, slot: Slot, now: Instant) -> Self {
        Self {
            pod: Arc::new(pod),
            slot,
            containers: BTreeMap::new(),
            cgroups: BTreeMap::new(),
            lacks_cgroups: false,
            netns: None,
            host_network: false,
            had_netns: false,
            fault: None,
            ports: BTreeSet::new(),
            since: now,
            gone: None,
            looked: None,
            published: None,
        }
    }

    /// Whether the pod's processes are to be looked at: nothing was found yet, its cgroups have just changed, or it is
    /// time.
    pub(super) fn looks_again(&mut self, places: &[Place], now: Instant) -> bool {
        let ids = || places.iter().map(|place| place.id);
        let last = self.looked.take_if(|look| ids().eq(look.ids.iter().copied()));
        let look = last.unwrap_or_else(|| Look { ids: ids().collect(), changed: now, last: None });
        // A process that is in the host's namespace may be a runtime's, on its way into the pod's.
        let is_settled = self.netns.is_some() || now.duration_since(self.since) > UNSETTLED;
        let rests = is_settled
            && now.duration_since(look.changed) > CHANGING
            && look.last.is_some_and(|last| now.duration_since(last) < LOOK);
        let last = if rests { look.last } else { Some(now) };
        self.looked = Some(Look { last, ..look });
        !rests
    }

    /// Tells once why something of the pod cannot be known.
    pub(super) fn tell_fault(&mut self, pod: &Pod, what: &str, fault: String) {
        if self.fault.as_ref() != Some(&fault) {
            warn!(pod = pod.name, namespace = pod.namespace, "{what}: {fault}");
            self.fault = Some(fault);
        }
    }

    /// Tells once of a pod whose source names its place (a pods file) when nothing in the kernel leads there: such a path may
    /// be mistyped, and gt would wait for it for ever.
    pub(super) fn tell_unfound(&mut self, pod: &Pod, now: Instant) {
        let is_late = now.duration_since(self.since) >= UNFOUND;
        if !is_late || self.is_attributed() || self.host_network || self.fault.is_some() {
            return;
        }
        if let Some(cause) = unfound(pod) {
            self.tell_fault(pod, "no series yet", cause);
        }
    }

    /// Whether anything in the kernel leads to this pod; until then its counts are unknown, not zero.
    pub(super) fn is_attributed(&self) -> bool {
        self.had_netns || !self.cgroups.is_empty()
    }

    /// What whoever reads inside the pod needs; the same as before when nothing has changed.
    pub(super) fn followed(&mut self) -> Arc<Followed> {
        let last = self.published.take();
        let uid = last.as_ref().map_or_else(|| self.pod.uid.as_str().into(), |last| Arc::clone(&last.uid));
        let now = Followed {
            uid,
            slot: self.slot,
            pod: Arc::clone(&self.pod),
            netns: self.netns.as_ref().map(Netns::shared),
            host_network: self.host_network || self.pod.host_network == Some(true),
            gone: self.gone.is_some(),
        };
        let now = last.filter(|last| **last == now).unwrap_or_else(|| Arc::new(now));
        Arc::clone(self.published.insert(now))
    }

    /// All of the pod's slots with their names.
    pub(super) fn owners(&self) -> impl Iterator<Item = Owner> {
        let owner = |container: &str, slot| Owner {
            slot,
            name: Name {
                namespace: self.pod.namespace.clone(),
                pod: self.pod.name.clone(),
                container: container.to_owned(),
            },
            uid: self.pod.uid.clone(),
            by_namespace: container.is_empty() && self.had_netns,
        };
        std::iter::once(owner("", self.slot))
            .chain(self.containers.iter().map(move |(name, slot)| owner(name, *slot)))
    }
}

/// What to look at when the place that the source names leads nowhere; `None` where it names none.
fn unfound(pod: &Pod) -> Option<String> {
    if let Some(netns) = &pod.netns {
        return Some(format!("the network namespace {} is not there; check the path", netns.display()));
    }
    let cgroup = pod.cgroup.as_ref()?.display();
    Some(format!(
        "the cgroup {cgroup} is not there, or no process in it has a network namespace of its own; check the path, and \
         that the processes run"
    ))
}

/// Slots nobody has.
#[derive(Debug)]
pub(super) struct FreeSlots(BTreeSet<Slot>);

impl FreeSlots {
    /// All but the self-check's.
    pub(super) fn new(slots: u32) -> Self {
        Self((0..slots).filter(|slot| *slot != SELF_CHECK).collect())
    }

    /// The lowest.
    pub(super) fn take(&mut self) -> Option<Slot> {
        self.0.pop_first()
    }

    pub(super) fn give_back(&mut self, slot: Slot) {
        self.0.insert(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(id: u64) -> Place {
        Place { id, ..Place::default() }
    }

    /// Exercises rounds with and without news of a pod, so that an open namespace is let go with the tracker's own.
    #[test]
    fn followed() {
        let mut watched = Watched::new(Pod::default(), 1, Instant::now());
        let first = watched.followed();
        assert!(Arc::ptr_eq(&first, &watched.followed()));
        let netns = Netns::open("/proc/self/ns/net".as_ref()).unwrap();
        let held = Arc::downgrade(&netns.shared());
        watched.netns = Some(netns);
        assert!(watched.followed().netns.is_some() && held.upgrade().is_some());
        watched.netns = None;
        watched.gone = Some(Instant::now());
        let last = watched.followed();
        assert!(last.gone && last.netns.is_none() && held.upgrade().is_none());
    }

    /// Exercises pods whose place leads nowhere, so that each is told of once, in words, and none before its time or
    /// without a place that somebody gave.
    #[test]
    fn unfound_places() {
        let began = Instant::now();
        let by = |netns: Option<&str>, cgroup: Option<&str>| Pod {
            netns: netns.map(Into::into),
            cgroup: cgroup.map(Into::into),
            ..Pod::default()
        };
        for (pod, told) in [
            (by(Some("/run/netns/x"), None), Some("the network namespace /run/netns/x is not there")),
            (by(None, Some("a/b")), Some("the cgroup a/b is not there")),
            (by(None, None), None),
        ] {
            let mut watched = Watched::new(pod.clone(), 1, began);
            watched.tell_unfound(&pod, began + UNFOUND - Duration::from_secs(1));
            assert_eq!(watched.fault, None);
            watched.tell_unfound(&pod, began + UNFOUND);
            let fault = watched.fault.as_deref();
            assert!(fault.is_some() == told.is_some(), "{fault:?}");
            assert!(told.is_none_or(|told| fault.is_some_and(|fault| fault.starts_with(told))), "{fault:?}");
        }
    }

    /// Exercises the times at which a pod's processes are looked at, so that a settled pod costs little and none is
    /// left alone for good.
    #[test]
    fn looks() {
        let began = Instant::now();
        let mut watched = Watched::new(Pod::default(), 1, began);
        let at = |ms| began + Duration::from_millis(ms);
        // Unsettled: every time.
        assert!(watched.looks_again(&[], at(0)) && watched.looks_again(&[], at(100)));
        assert!(watched.looks_again(&[place(7)], at(20_000)) && watched.looks_again(&[place(7)], at(29_000)));
        // Settled: now and then.
        assert!(!watched.looks_again(&[place(7)], at(31_000)));
        assert!(watched.looks_again(&[place(7)], at(34_000)));
        assert!(!watched.looks_again(&[place(7)], at(38_900)));
        // A change is looked at for a while.
        assert!(watched.looks_again(&[place(7), place(8)], at(38_950)));
        assert!(watched.looks_again(&[place(7), place(8)], at(40_000)));
        assert!(!watched.looks_again(&[place(7), place(8)], at(41_000)));
    }
}
