//! The kernel programs' maps: owners and facts go in, connections and counts come out.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use aya::{
    Ebpf,
    maps::{Array, HashMap, MapData, MapError, PerCpuArray, PerCpuValues},
    util::nr_cpus,
};
use gt_common::{
    connection::{CLOSED, Connection, CutKey, HcState, LEFT, Lane, PodFacts, Protocol, port_key},
    counters::{Counters, Losses},
    owner::{Owner, Slot, namespace_place},
};

use super::{ProbeError, chain, facts::Facts, places::Places};

/// Maps shared by whoever assigns owners and whoever reads counts.
pub struct Maps {
    slots: u32,
    counters: Mutex<PerCpuArray<MapData, Counters>>,
    losses: PerCpuArray<MapData, Losses>,
    cgroups: Mutex<HashMap<MapData, u64, Owner>>,
    namespaces: Mutex<HashMap<MapData, u32, Owner>>,
    owned: Mutex<Array<MapData, u32>>,
    places: Places,
    connections: Mutex<HashMap<MapData, u64, Connection>>,
    cuts: Mutex<HashMap<MapData, CutKey, u64>>,
    ports: Mutex<HashMap<MapData, u64, u32>>,
    pods: Mutex<(Array<MapData, PodFacts>, Facts)>,
    pass: Mutex<Array<MapData, u32>>,
    /// What the reconciliation found out and the kernel programs did not see.
    corrections: Mutex<BTreeMap<(Slot, u8), Correction>>,
}

/// Ends of connections that no hook told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Correction {
    pub left: u64,
    pub closed: u64,
}

impl fmt::Debug for Maps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maps").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl Maps {
    pub(super) fn take(ebpf: &mut Ebpf, slots: u32) -> Result<Self, ProbeError> {
        Ok(Self {
            slots,
            counters: Mutex::new(take(ebpf, "COUNTERS")?),
            losses: take(ebpf, "LOSSES")?,
            cgroups: Mutex::new(take(ebpf, "CGROUP_OWNER")?),
            namespaces: Mutex::new(take(ebpf, "NETNS_OWNER")?),
            owned: Mutex::new(take(ebpf, "OWNED")?),
            places: Places::take(ebpf)?,
            connections: Mutex::new(take(ebpf, "CONNECTIONS")?),
            cuts: Mutex::new(take(ebpf, "CUTS")?),
            ports: Mutex::new(take(ebpf, "PORTS")?),
            pods: Mutex::new((take(ebpf, "PODS")?, Facts::default())),
            pass: Mutex::new(take(ebpf, "PASS")?),
            corrections: Mutex::default(),
        })
    }

    /// How many owners can be told apart, the self-check's included.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// An owner's counts, summed over all CPUs, with what the reconciliation has corrected.
    pub fn counters(&self, slot: Slot) -> Result<Counters, ProbeError> {
        let mut sum = Counters::default();
        let values = lock(&self.counters).get(&slot, 0).map_err(failed("COUNTERS"))?;
        values.iter().for_each(|part| sum.add(part));
        let corrections = lock(&self.corrections);
        for (lane, counters) in Lane::ALL.into_iter().zip(&mut sum.lanes) {
            if let Some(correction) = corrections.get(&(slot, lane as u8)) {
                counters.left += correction.left;
                counters.closed += correction.closed;
            }
        }
        Ok(sum)
    }

    /// What the kernel programs could not do, summed over all CPUs.
    pub fn losses(&self) -> Result<Losses, ProbeError> {
        let values = self.losses.get(&0, 0).map_err(failed("LOSSES"))?;
        let mut sum = Losses::default();
        values.iter().for_each(|part| sum.add(part));
        Ok(sum)
    }

    /// All cuts and RSTs during requests in flight, by what they are counted by.
    pub fn cuts(&self) -> Result<BTreeMap<CutKey, u64>, ProbeError> {
        lock(&self.cuts).iter().collect::<Result<_, _>>().map_err(failed("CUTS"))
    }

    /// The connections in the table that are wanted, with their socket's kernel address: all of them would be megabytes. One
    /// that ends meanwhile may be missing.
    pub fn connections(
        &self,
        wanted: impl Fn(&Connection) -> bool,
    ) -> Result<Vec<(u64, Connection)>, ProbeError> {
        let mut found: Vec<_> = self.places.connections().filter(|(_, c)| wanted(c)).collect();
        let connections = lock(&self.connections);
        for entry in connections.iter() {
            match entry {
                Ok(entry) if wanted(&entry.1) => found.push(entry),
                Ok(_) | Err(MapError::KeyNotFound) => {}
                Err(error) => return Err(failed("CONNECTIONS")(error)),
            }
        }
        Ok(found)
    }

    /// Takes entries out that a pass of the iterator did not see, unless they have become other connections; counts
    /// the ends that no hook told of. Returns how many were taken out.
    pub fn correct(&self, unseen: &[(u64, Connection)]) -> Result<u64, ProbeError> {
        let mut displaced = Vec::new();
        let mut placed = Vec::new();
        for (socket, expected) in unseen {
            let is_same =
                |current: &Connection| current.since_ns == expected.since_ns && current.seen == expected.seen;
            if let Some(current) = self.places.get(*socket) {
                if is_same(&current) {
                    placed.push(*socket);
                }
            } else if let Some(current) = self.displaced(*socket)?.filter(is_same)
                && self.remove_displaced(*socket)?
            {
                displaced.push(current);
            }
        }
        let taken = displaced.into_iter().chain(self.places.retire(&placed));
        let mut corrections = lock(&self.corrections);
        let mut removed = 0;
        for connection in taken {
            let correction = corrections.entry((connection.slot(), connection.lane)).or_default();
            correction.left += u64::from(connection.flags & LEFT == 0);
            correction.closed += u64::from(connection.flags & CLOSED == 0);
            removed += 1;
        }
        Ok(removed)
    }

    /// A connection whose place another one had.
    fn displaced(&self, socket: u64) -> Result<Option<Connection>, ProbeError> {
        match lock(&self.connections).get(&socket, 0) {
            Ok(connection) => Ok(Some(connection)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(failed("CONNECTIONS")(error)),
        }
    }

    /// Takes out such a connection; whether it was there.
    fn remove_displaced(&self, socket: u64) -> Result<bool, ProbeError> {
        match lock(&self.connections).remove(&socket) {
            Ok(()) => {
                self.places.forget_displaced(socket);
                Ok(true)
            }
            Err(MapError::KeyNotFound) => Ok(false),
            Err(error) => Err(failed("CONNECTIONS")(error)),
        }
    }

    /// Number of the iterator's pass that is about to run.
    pub(super) fn set_pass(&self, pass: u32) -> Result<(), ProbeError> {
        lock(&self.pass).set(0, pass, 0).map_err(failed("PASS"))
    }

    /// Prepares slots for another owner: no connection, cut or count of the last one is left.
    pub fn reset(&self, slots: &[Slot]) -> Result<(), ProbeError> {
        let theirs =
            |connection: &Connection| slots.contains(&connection.slot()) || slots.contains(&connection.pod());
        let left: Vec<_> = self.connections(theirs)?.into_iter().map(|(socket, _)| socket).collect();
        self.places.retire(&left);
        for socket in left {
            self.remove_displaced(socket)?;
        }
        for key in self.cuts()?.into_keys().filter(|key| slots.contains(&key.slot)) {
            absent_is_fine(lock(&self.cuts).remove(&key)).map_err(failed("CUTS"))?;
        }
        lock(&self.corrections).retain(|(slot, _), _| !slots.contains(slot));
        for slot in slots {
            self.zero(*slot)?;
            self.with_facts(|facts, write| facts.reset(*slot, |word| write(*slot, word)))?;
        }
        Ok(())
    }

    fn zero(&self, slot: Slot) -> Result<(), ProbeError> {
        let failed = failed("COUNTERS");
        let cpus = nr_cpus().map_err(|(_, error)| failed(MapError::IoError(error)))?;
        let zeros = PerCpuValues::try_from(vec![Counters::default(); cpus])
            .map_err(|error| failed(MapError::IoError(error)))?;
        lock(&self.counters).set(slot, zeros, 0).map_err(failed)
    }

    /// Tells the kernel programs a pod's declared protocol, and whether its state changes are wanted as events.
    pub fn declare(&self, pod: Slot, protocol: Protocol, interest: bool) -> Result<(), ProbeError> {
        self.with_facts(|facts, write| facts.declare(pod, protocol, interest, |word| write(pod, word)))
    }

    /// Tells the kernel programs the state of a pod's health sidecar, which teardowns keep from then on.
    pub fn set_hc(&self, pod: Slot, state: HcState) -> Result<(), ProbeError> {
        self.with_facts(|facts, write| facts.set_hc(pod, state, |word| write(pod, word)))
    }

    /// One word at a time, by whichever author.
    fn with_facts(
        &self,
        change: impl FnOnce(
            &mut Facts,
            &mut dyn FnMut(Slot, PodFacts) -> Result<(), ProbeError>,
        ) -> Result<(), ProbeError>,
    ) -> Result<(), ProbeError> {
        let mut pods = lock(&self.pods);
        let (map, facts) = &mut *pods;
        change(facts, &mut |pod, word| map.set(pod, word, 0).map_err(failed("PODS")))
    }

    /// Makes an inbound port of a pod one of health or admin.
    pub fn class(&self, pod: Slot, port: u16, lane: Lane) -> Result<(), ProbeError> {
        lock(&self.ports).insert(port_key(pod, port), lane as u32, 0).map_err(failed("PORTS"))
    }

    /// Makes an inbound port of a pod one of user traffic again.
    pub fn declass(&self, pod: Slot, port: u16) -> Result<(), ProbeError> {
        absent_is_fine(lock(&self.ports).remove(&port_key(pod, port))).map_err(failed("PORTS"))
    }

    /// Makes a cgroup's sockets an owner's.
    pub fn own_cgroup(&self, id: u64, owner: Owner) -> Result<(), ProbeError> {
        lock(&self.cgroups).insert(id, owner, 0).map_err(failed("CGROUP_OWNER"))
    }

    /// A cgroup's sockets are not this pod's any more; another owner's entry stays.
    pub fn disown_cgroup(&self, id: u64, pod: Slot) -> Result<(), ProbeError> {
        let mut cgroups = lock(&self.cgroups);
        match cgroups.get(&id, 0) {
            Ok(owner) if owner.pod == pod => {
                absent_is_fine(cgroups.remove(&id)).map_err(failed("CGROUP_OWNER"))
            }
            _ => Ok(()),
        }
    }

    /// Makes a network namespace's sockets an owner's, where their cgroup says nothing.
    pub fn own_namespace(&self, inode: u32, owner: Owner) -> Result<(), ProbeError> {
        // First: a program that finds no mark does not look for an owner.
        lock(&self.owned).set(namespace_place(inode), 1, 0).map_err(failed("OWNED"))?;
        lock(&self.namespaces).insert(inode, owner, 0).map_err(failed("NETNS_OWNER"))
    }

    /// A network namespace's sockets are not this pod's any more; another owner's entry stays.
    pub fn disown_namespace(&self, inode: u32, pod: Slot) -> Result<(), ProbeError> {
        let mut namespaces = lock(&self.namespaces);
        match namespaces.get(&inode, 0) {
            Ok(owner) if owner.pod == pod => {
                absent_is_fine(namespaces.remove(&inode)).map_err(failed("NETNS_OWNER"))
            }
            _ => Ok(()),
        }
    }
}

fn take<T>(ebpf: &mut Ebpf, name: &'static str) -> Result<T, ProbeError>
where
    T: TryFrom<aya::maps::Map, Error = MapError>,
{
    let map = ebpf.take_map(name).ok_or(ProbeError::Missing { what: "map", name })?;
    T::try_from(map).map_err(failed(name))
}

fn failed(name: &'static str) -> impl Fn(MapError) -> ProbeError {
    move |error| ProbeError::Map { name, cause: chain(&error) }
}

fn absent_is_fine(result: Result<(), MapError>) -> Result<(), MapError> {
    match result {
        Err(MapError::KeyNotFound) => Ok(()),
        other => other,
    }
}

/// A map stays usable when another thread panicked while it held the lock: its content is the kernel's.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
