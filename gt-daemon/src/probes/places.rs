//! The places of connections as user space sees them: mapped memory that the kernel programs write meanwhile.
//!
//! Owns: the mapping, and taking back what ended unseen. How both sides keep out of each other's way is in
//! gt-ebpf/src/places.rs.
#![expect(unsafe_code, reason = "memory shared with the kernel: mapped, and read by atomic words")]

use std::{
    num::NonZeroUsize,
    os::fd::AsFd as _,
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use aya::{
    Ebpf,
    maps::{Map, MapData},
};
use gt_common::{
    connection::Connection,
    places::{Place, is_taken, place_of, retired},
};
use nix::{
    libc::{self, c_int},
    sys::mman::{MapFlags, ProtFlags, mmap, munmap},
};

use super::{ProbeError, chain};

const NAME: &str = "PLACES";

const WORDS: usize = size_of::<Place>() / 8;
const CLAIMS: usize = core::mem::offset_of!(Place, claims) / 8;
const SOCKET: usize = core::mem::offset_of!(Place, socket) / 8;
const CONNECTION: usize = core::mem::offset_of!(Place, connection) / 8;
const CONNECTION_WORDS: usize = size_of::<Connection>() / 8;
const DISPLACED: usize = core::mem::offset_of!(Place, displaced) / 8;

/// A place in words that the kernel may write at any time.
type Words = [AtomicU64; WORDS];

/// All places, mapped for as long as this lives.
pub(super) struct Places {
    first: NonNull<Words>,
    /// A power of two.
    count: usize,
    /// Programs that are loaded later still name the array by its descriptor.
    _array: MapData,
}

// SAFETY: the mapping is not bound to a thread, and all of it is read and written by atomic words only.
unsafe impl Send for Places {}
// SAFETY: as above.
unsafe impl Sync for Places {}

impl Places {
    /// Maps the array.
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self, ProbeError> {
        let failed = |cause: String| ProbeError::Map { name: NAME, cause };
        let Some(Map::Array(map)) = ebpf.take_map(NAME) else {
            return Err(ProbeError::Missing { what: "array", name: NAME });
        };
        let count = map.info().map_err(|error| failed(chain(&error)))?.max_entries() as usize;
        let length =
            NonZeroUsize::new(count * size_of::<Place>()).ok_or_else(|| failed("it is empty".into()))?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let mapped = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, map.fd().as_fd(), 0) };
        let first = mapped.map_err(|error| failed(format!("cannot map it: {error}")))?.cast();
        Ok(Self { first, count, _array: map })
    }

    fn all(&self) -> &[Words] {
        // SAFETY: the mapping has `count` places of `WORDS` words from `first` on, begins at a page, and lives as long
        // as `self`; the kernel changes them by whole words.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }

    /// The connections that have places, with their socket's kernel address. One that ends meanwhile may be missing.
    pub(super) fn connections(&self) -> impl Iterator<Item = (u64, Connection)> {
        self.all().iter().filter_map(read)
    }

    /// The connection of a socket, if it has a place.
    pub(super) fn get(&self, socket: u64) -> Option<Connection> {
        place(self.all(), socket)
            .and_then(read)
            .filter(|(found, _)| *found == socket)
            .map(|(_, connection)| connection)
    }

    /// Takes places back from sockets that are gone; returns the connections that had them. A place whose socket is
    /// entered anew meanwhile is left alone. Takes some milliseconds unless there is nothing to do.
    pub(super) fn retire(&self, sockets: &[u64]) -> Vec<Connection> {
        retire(self.all(), sockets, wait_for_programs)
    }

    /// An entry of this socket has been taken out of the hash by user space.
    pub(super) fn forget_displaced(&self, socket: u64) {
        if let Some(place) = place(self.all(), socket) {
            word(place, DISPLACED).fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        // SAFETY: mapped in `take` with this length; no reference into it outlives `self`.
        let _it_ends_with_the_process_else =
            unsafe { munmap(self.first.cast(), self.count * size_of::<Place>()) };
    }
}

/// The place of a socket.
fn place(places: &[Words], socket: u64) -> Option<&Words> {
    let mask = u32::try_from(places.len()).ok()?.wrapping_sub(1);
    places.get(place_of(socket, mask) as usize)
}

fn retire(places: &[Words], sockets: &[u64], wait: impl FnOnce()) -> Vec<Connection> {
    let mut marked: Vec<_> =
        sockets.iter().filter_map(|socket| Some((*socket, place(places, *socket)?))).collect();
    marked.retain(|(socket, place)| swap(place, *socket, retired(*socket)));
    if marked.is_empty() {
        return Vec::new();
    }
    wait();
    let mut taken = Vec::new();
    for (socket, place) in marked {
        let connection = connection(place);
        // Else a program that had read the address before has emptied the place itself.
        if swap(place, retired(socket), 0) {
            word(place, CLAIMS).fetch_sub(1, Ordering::AcqRel);
            taken.push(connection);
        }
    }
    taken
}

fn word(place: &Words, index: usize) -> &AtomicU64 {
    &place[index]
}

fn swap(place: &Words, old: u64, new: u64) -> bool {
    word(place, SOCKET).compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

fn read(place: &Words) -> Option<(u64, Connection)> {
    let socket = word(place, SOCKET).load(Ordering::Acquire);
    if !is_taken(socket) {
        return None;
    }
    let connection = connection(place);
    // Another socket's by now: what was read may be of both.
    std::sync::atomic::fence(Ordering::Acquire);
    (word(place, SOCKET).load(Ordering::Acquire) == socket).then_some((socket, connection))
}

fn connection(place: &Words) -> Connection {
    let words: [u64; CONNECTION_WORDS] =
        std::array::from_fn(|index| word(place, CONNECTION + index).load(Ordering::Acquire));
    // SAFETY: the same size, and any bit pattern is a Connection (gt_common::pod).
    unsafe { std::mem::transmute(words) }
}

/// Waits until every kernel program that runs now has ended: they are readers of RCU, for which membarrier(2) waits.
fn wait_for_programs() {
    /// include/uapi/linux/membarrier.h, since 4.3.
    const MEMBARRIER_CMD_GLOBAL: c_int = 1;
    const LONGER_THAN_ANY_RUN: Duration = Duration::from_millis(100);

    // SAFETY: three numbers, no memory.
    let waited = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    // Refused where CPUs run without ticks (nohz_full), and where it is not built in.
    if waited != 0 {
        thread::sleep(LONGER_THAN_ANY_RUN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKET: u64 = 0xffff_8881_0000_0040;

    fn empty(count: usize) -> Vec<Words> {
        (0..count).map(|_| Words::default()).collect()
    }

    /// As the kernel programs enter a connection.
    fn enter(place: &Words, socket: u64, since_ns: u64) {
        place[CLAIMS].fetch_add(1, Ordering::Relaxed);
        place[CONNECTION].store(since_ns, Ordering::Relaxed);
        place[super::SOCKET].store(socket, Ordering::Relaxed);
    }

    /// As the kernel programs end one.
    fn leave(place: &Words) {
        place[super::SOCKET].store(0, Ordering::Relaxed);
        place[CLAIMS].fetch_sub(1, Ordering::Relaxed);
    }

    fn content(place: &Words) -> (u64, u64) {
        (place[CLAIMS].load(Ordering::Relaxed), place[super::SOCKET].load(Ordering::Relaxed))
    }

    /// Exercises what is in a place: its connection, nobody's, or one that is being taken back.
    #[test]
    fn what_is_there() {
        let places = empty(4);
        let place = place(&places, SOCKET).unwrap();
        assert_eq!(read(place), None);
        enter(place, SOCKET, 7);
        assert_eq!(read(place).map(|(socket, c)| (socket, c.since_ns)), Some((SOCKET, 7)));
        assert!(swap(place, SOCKET, retired(SOCKET)));
        assert_eq!(read(place), None);
    }

    /// Exercises a socket that ended unseen, and one that has no place, so that the place is free again and only
    /// the one is told.
    #[test]
    fn a_place_is_taken_back() {
        let places = empty(1);
        enter(&places[0], SOCKET, 7);
        let taken = retire(&places, &[SOCKET, SOCKET + 64], || {
            assert_eq!(content(&places[0]), (1, retired(SOCKET)), "nobody else can have it yet");
        });
        assert_eq!(taken.iter().map(|c| c.since_ns).collect::<Vec<_>>(), [7]);
        assert_eq!(content(&places[0]), (0, 0));
        assert!(retire(&places, &[SOCKET], || panic!("nothing to wait for")).is_empty());
    }

    /// Exercises a program that had read the address before the mark was there and ends the connection itself, with
    /// and without another that enters there after it: the claim is taken back once.
    #[test]
    fn a_program_was_faster() {
        let places = empty(1);
        enter(&places[0], SOCKET, 7);
        assert!(retire(&places, &[SOCKET], || leave(&places[0])).is_empty());
        assert_eq!(content(&places[0]), (0, 0));

        enter(&places[0], SOCKET, 8);
        let again = || {
            leave(&places[0]);
            enter(&places[0], SOCKET, 9);
        };
        assert!(retire(&places, &[SOCKET], again).is_empty());
        assert_eq!(content(&places[0]), (1, SOCKET));
    }

    /// Exercises the call that waits, so that it comes back.
    #[test]
    fn programs_end() {
        wait_for_programs();
    }
}
