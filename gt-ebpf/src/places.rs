//! Where the entries of the table lie. Each socket's address leads to one of many places, and the entry lies there if
//! no other socket was first; then it lies in a hash. A place is found without a call, for a tenth of what a look-up
//! in the hash takes, and filled for less.
//!
//! # Who has a place
//!
//! A place must never have two owners, and nothing but plain addition is atomic on every kernel (5.10 refuses a
//! program that has any other such instruction). So: who wants a place adds 1 to `claims` and then reads it. Whoever
//! reads 1 has the place until it takes the 1 back; whoever reads more takes its 1 back at once, and has nothing.
//!
//! That excludes: `claims` is the number of those that added and did not take back yet, and all changes of one word
//! have one order that everybody sees. Suppose that A read 1, and B reads 1 before A has taken its own back. A's 1 is
//! in what A read, so at that point of the order B had not added yet. Then B's addition comes after that point, B
//! reads a point after its own addition, and there both are in: at least 2. Two who come at once may both read 2 and
//! both go to the hash: that costs time, not truth.
//!
//! Owners follow one another in order: a place is emptied before its claim is taken back, and filled after the claim
//! was seen. On x86 no store overtakes another, nor a locked addition. Other machines do reorder them, and have no
//! remedy that 5.10 knows: there, all entries lie in the hash.
//!
//! # Who may use an entry
//!
//! Only programs that run for its socket read or write an entry, and the kernel runs them one after the other: a
//! socket's state, reads and resets are under its lock, its memory is given back after `tcp_destroy_sock`, and what the
//! iterator shows is held. So an address is in one place or in the hash or nowhere, and never in two: who enters it
//! has looked for it before.
//!
//! An end that no program saw leaves its entry behind. The daemon finds it and takes it back, without this side's help
//! (gt-daemon/src/probes/places.rs): it replaces `socket` by a mark, which no socket equals, waits until every program
//! that may have read the address before has ended, and takes the claim back only if the mark still stands. A program
//! that empties the place meanwhile overwrites the mark, and takes the claim back itself.

use aya_ebpf::{
    macros::map,
    maps::{Array, HashMap},
};
use gt_common::{
    connection::Connection,
    places::{Place, place_of},
};

use crate::{
    atomic::{decrement, increment},
    layout::place_mask,
    mem::number,
};

/// Mapped by the daemon; and an array that can be mapped begins at a page, so that each place is one line of the
/// cache.
const BPF_F_MMAPABLE: u32 = 1 << 10;

/// Insert only what is not there (include/uapi/linux/bpf.h).
const BPF_NOEXIST: u64 = 1;

#[map]
static PLACES: Array<Place> = Array::with_max_entries(131_072, BPF_F_MMAPABLE);

/// Entries whose place another connection has.
#[map]
static CONNECTIONS: HashMap<u64, Connection> = HashMap::with_max_entries(131_072, 0);

/// Whether stores and locked additions keep their order.
const KEEPS_ORDER: bool = cfg!(bpf_target_arch = "x86_64");

#[inline(always)]
fn place(socket: u64) -> Option<*mut Place> {
    PLACES.get_ptr_mut(place_of(socket, place_mask()))
}

/// The entry of a socket.
#[inline(always)]
pub(crate) fn find(sk: *const u8) -> Option<&'static mut Connection> {
    let socket = number(sk);
    let place = place(socket)?;
    if KEEPS_ORDER {
        if unsafe { core::ptr::read_volatile(&raw const (*place).socket) } == socket {
            return Some(unsafe { &mut (*place).connection });
        }
        if unsafe { core::ptr::read_volatile(&raw const (*place).displaced) } == 0 {
            return None;
        }
    }
    CONNECTIONS.get_ptr_mut(socket).map(|connection| unsafe { &mut *connection })
}

/// Enters a socket that has no entry; an error is the kernel's word that the hash is full.
#[inline(always)]
pub(crate) fn insert(sk: *const u8, connection: &Connection) -> Result<(), i32> {
    const FULL: i32 = -7;

    let socket = number(sk);
    let place = place(socket).ok_or(FULL)?;
    if KEEPS_ORDER {
        increment(unsafe { &mut (*place).claims });
        if unsafe { core::ptr::read_volatile(&raw const (*place).claims) } == 1 {
            unsafe {
                (*place).connection = *connection;
                core::ptr::write_volatile(&raw mut (*place).socket, socket);
            }
            return Ok(());
        }
        decrement(unsafe { &mut (*place).claims });
    }
    // Before the entry is there, so that whoever looks for it does not stop at the place.
    increment(unsafe { &mut (*place).displaced });
    let inserted = CONNECTIONS.insert(socket, connection, BPF_NOEXIST);
    if inserted.is_err() {
        decrement(unsafe { &mut (*place).displaced });
    }
    inserted
}

/// Takes the entry of a socket out, if it has one.
#[inline(always)]
pub(crate) fn remove(sk: *const u8) {
    let socket = number(sk);
    let Some(place) = place(socket) else { return };
    if KEEPS_ORDER && unsafe { core::ptr::read_volatile(&raw const (*place).socket) } == socket {
        unsafe { core::ptr::write_volatile(&raw mut (*place).socket, 0) };
        decrement(unsafe { &mut (*place).claims });
    } else if CONNECTIONS.remove(socket).is_ok() {
        decrement(unsafe { &mut (*place).displaced });
    }
}
