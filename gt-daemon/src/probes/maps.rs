//! The kernel programs' maps: owners go in, counts come out.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use aya::{
    Ebpf,
    maps::{HashMap, MapData, MapError, PerCpuArray, PerCpuValues},
    util::nr_cpus,
};
use gt_common::{
    counters::{Counters, Losses},
    owner::Slot,
};

use super::ProbeError;

/// Maps shared by whoever assigns owners and whoever reads counts.
pub struct Maps {
    slots: u32,
    counters: Mutex<PerCpuArray<MapData, Counters>>,
    losses: PerCpuArray<MapData, Losses>,
    cgroups: Mutex<HashMap<MapData, u64, Slot>>,
    namespaces: Mutex<HashMap<MapData, u32, Slot>>,
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
        })
    }

    /// How many owners can be told apart, the self-check's included.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// An owner's counts, summed over all CPUs.
    pub fn counters(&self, slot: Slot) -> Result<Counters, ProbeError> {
        let mut sum = Counters::default();
        let values = lock(&self.counters).get(&slot, 0).map_err(failed("COUNTERS"))?;
        values.iter().for_each(|part| sum.add(part));
        Ok(sum)
    }

    /// Sets an owner's counts to zero, before its slot goes to another owner.
    pub fn reset(&self, slot: Slot) -> Result<(), ProbeError> {
        let cpus = nr_cpus().map_err(|(_, error)| ProbeError::Map {
            name: "COUNTERS",
            source: Box::new(MapError::IoError(error)),
        })?;
        let zero = PerCpuValues::try_from(vec![Counters::default(); cpus]).map_err(|error| {
            ProbeError::Map { name: "COUNTERS", source: Box::new(MapError::IoError(error)) }
        })?;
        lock(&self.counters).set(slot, zero, 0).map_err(failed("COUNTERS"))
    }

    /// What the kernel programs could not do, summed over all CPUs.
    pub fn losses(&self) -> Result<Losses, ProbeError> {
        let values = self.losses.get(&0, 0).map_err(failed("LOSSES"))?;
        Ok(values.iter().fold(Losses::default(), |sum, part| Losses {
            ring_full: sum.ring_full + part.ring_full,
            kernel_read: sum.kernel_read + part.kernel_read,
        }))
    }

    /// Makes a cgroup's sockets an owner's.
    pub fn own_cgroup(&self, id: u64, slot: Slot) -> Result<(), ProbeError> {
        lock(&self.cgroups).insert(id, slot, 0).map_err(failed("CGROUP_OWNER"))
    }

    /// A cgroup's sockets belong to nobody any more.
    pub fn disown_cgroup(&self, id: u64) -> Result<(), ProbeError> {
        absent_is_fine(lock(&self.cgroups).remove(&id)).map_err(failed("CGROUP_OWNER"))
    }

    /// Makes a network namespace's sockets an owner's, where their cgroup says nothing.
    pub fn own_namespace(&self, inode: u32, slot: Slot) -> Result<(), ProbeError> {
        lock(&self.namespaces).insert(inode, slot, 0).map_err(failed("NETNS_OWNER"))
    }

    /// A network namespace's sockets belong to nobody any more.
    pub fn disown_namespace(&self, inode: u32) -> Result<(), ProbeError> {
        absent_is_fine(lock(&self.namespaces).remove(&inode)).map_err(failed("NETNS_OWNER"))
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
    move |source| ProbeError::Map { name, source: Box::new(source) }
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
