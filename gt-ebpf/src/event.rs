//! Events for the daemon, through one ring buffer. A full ring is counted and never waited for.

use aya_ebpf::{
    helpers::{bpf_ktime_get_ns, bpf_probe_read_kernel_buf},
    macros::map,
    maps::RingBuf,
};
use gt_common::{
    connection::{Connection, FIRST, Moment, Protocol},
    event::{Event, Kind},
    layout::ABSENT,
    owner::Slot,
};

use crate::{
    counters::lost,
    layout::offset,
    mem::{Mem, Probed},
    owner::is_full_socket,
    packet::Packet,
};

#[map]
static EVENTS: RingBuf = RingBuf::with_byte_size(RING_BYTES, 0);

/// Small enough to stay in a CPU's cache; read before it is full, see [`wake`].
const RING_BYTES: u32 = 1 << 19;

pub(crate) const AF_INET: u8 = 2;
pub(crate) const AF_INET6: u8 = 10;

/// Nanoseconds of CLOCK_MONOTONIC.
#[inline(always)]
pub(crate) fn now() -> u64 {
    unsafe { bpf_ktime_get_ns() }
}

/// Fills an event in the ring's own memory and sends it.
#[inline(always)]
fn send(time_ns: u64, fill: impl FnOnce(&mut Event)) {
    reserve(time_ns, |event| {
        clear(event);
        fill(unsafe { &mut *event });
    });
}

/// Sends an event of which `fill` writes every byte.
#[inline(always)]
fn reserve(time_ns: u64, fill: impl FnOnce(*mut Event)) {
    match EVENTS.reserve::<Event>(0) {
        Some(mut entry) => {
            let event = entry.as_mut_ptr();
            fill(event);
            unsafe { (*event).time_ns = time_ns };
            entry.submit(wake(time_ns));
        }
        None => lost(|losses| &mut losses.ring_full),
    }
}

/// Reserved memory holds an old event. Word by word and volatile: the compiler would make it a call of `memset`,
/// a loop over bytes that an older verifier walks once for every path.
#[inline(always)]
fn clear(event: *mut Event) {
    const WORDS: usize = size_of::<Event>() / 8;

    let words = event.cast::<u64>();
    for word in 0..WORDS {
        unsafe { core::ptr::write_volatile(words.add(word), 0) };
    }
}

/// Waking the reader costs five times as much as the event itself, so it comes by itself every few milliseconds
/// and is only woken when much is waiting (flags of include/uapi/linux/bpf.h). How much that is, is asked for about
/// one event in 64, by the last digits of its time: a quarter of the ring is a thousand of them.
#[inline(always)]
fn wake(time_ns: u64) -> u64 {
    const BPF_RB_NO_WAKEUP: u64 = 1;
    const BPF_RB_FORCE_WAKEUP: u64 = 2;
    const BPF_RB_AVAIL_DATA: u64 = 0;

    if time_ns & 63 == 0 && EVENTS.query(BPF_RB_AVAIL_DATA) > u64::from(RING_BYTES / 4) {
        BPF_RB_FORCE_WAKEUP
    } else {
        BPF_RB_NO_WAKEUP
    }
}

/// Copies an address of 4 or 16 bytes; what cannot be read stays zero.
#[inline(always)]
fn address(source: *const u8, offset: u32, target: &mut [u8]) {
    let _zeroed_on_failure =
        unsafe { bpf_probe_read_kernel_buf(source.wrapping_add(offset as usize), target) };
}

/// A socket that is already closed has given its port back (`inet_put_port`), but still knows it.
#[inline(always)]
fn local_port<M: Mem>(sk: *const u8, state: u8) -> u16 {
    match M::read::<u16>(sk, offset!(sk_num)) {
        Some(0) if is_full_socket(state) => u16::from_be(M::get::<u16>(sk, offset!(inet_sport))),
        port => port.unwrap_or(0),
    }
}

/// What is known of an event besides its socket.
#[derive(Clone, Copy)]
pub(crate) struct About {
    pub(crate) kind: Kind,
    pub(crate) detail: u8,
    pub(crate) slot: Slot,
    pub(crate) netns: u32,
    pub(crate) state: u8,
    pub(crate) lane: u8,
}

/// The 16 bytes of an address by its halves.
#[inline(always)]
fn wide(low: u64, high: u64) -> [u8; 16] {
    unsafe { core::mem::transmute([low, high]) }
}

/// Addresses and ports; every kind of socket begins with a `sock_common`.
#[inline(always)]
fn ends<M: Mem>(event: &mut Event, sk: *const u8, state: u8) {
    let family = M::get::<u16>(sk, offset!(sk_family));
    if family == u16::from(AF_INET6) && offset!(sk_v6_daddr) != ABSENT {
        let (local, remote) = (offset!(sk_v6_rcv_saddr), offset!(sk_v6_daddr));
        event.local = wide(M::get(sk, local), M::get(sk, local + 8));
        event.remote = wide(M::get(sk, remote), M::get(sk, remote + 8));
    } else {
        event.local = wide(u64::from(M::get::<u32>(sk, offset!(sk_rcv_saddr))), 0);
        event.remote = wide(u64::from(M::get::<u32>(sk, offset!(sk_daddr))), 0);
    }
    event.local_port = local_port::<M>(sk, state);
    event.remote_port = u16::from_be(M::get::<u16>(sk, offset!(sk_dport)));
    event.family = family as u8;
}

#[inline(always)]
fn about(event: &mut Event, about: &About) {
    event.slot = about.slot;
    event.netns = about.netns;
    event.kind = about.kind as u8;
    event.detail = about.detail;
    event.state = about.state;
    event.lane = about.lane;
    // All else is zero: unknown, none.
    event.protocol = Protocol::Unknown as u8;
}

/// Reports what happened on a socket that is in no table.
#[inline(always)]
pub(crate) fn on_socket(what: &About, sk: *const u8) {
    send(now(), |event| {
        about(event, what);
        ends::<Probed>(event, sk, what.state);
        event.socket = sk as u64;
    });
}

/// Reports what happened to a connection of the table; `first` when that is its teardown, with what was seen
/// at that moment.
#[inline(always)]
pub(crate) fn on_connection<M: Mem>(
    what: &About,
    (sk, tcp): (*const u8, *const u8),
    connection: &Connection,
    moment: &Moment,
    first: bool,
    time_ns: u64,
) {
    reserve(time_ns, |event| {
        let event = unsafe { &mut *event };
        event.reserved_word = 0;
        event.reserved = 0;
        about(event, what);
        ends::<M>(event, tcp, what.state);
        event.socket = sk as u64;
        event.since_ns = connection.since_ns;
        event.received = M::get::<u64>(tcp, offset!(tcp_bytes_received));
        event.sent = M::get::<u64>(tcp, offset!(tcp_bytes_sent));
        event.protocol = connection.protocol;
        event.phase = connection.phase;
        event.how = connection.how;
        event.evidence = connection.evidence;
        event.hc = connection.hc;
        event.flags = connection.flags | if first { FIRST } else { 0 };
        event.unread = moment.unread;
        event.unsent = moment.unsent;
        event.unacked = moment.unacked;
        event.since_sent = moment.since_sent;
        event.since_read = moment.since_read;
    });
}

/// Reports what happened to a received packet that has no socket: its destination is local.
#[inline(always)]
pub(crate) fn on_packet(what: &About, packet: &Packet) {
    send(now(), |event| {
        about(event, what);
        // RFC 791 and RFC 8200: source, then destination.
        if packet.family == AF_INET {
            address(packet.ip, 12, &mut event.remote[..4]);
            address(packet.ip, 16, &mut event.local[..4]);
        } else {
            address(packet.ip, 8, &mut event.remote);
            address(packet.ip, 24, &mut event.local);
        }
        event.local_port = packet.destination_port;
        event.remote_port = packet.source_port;
        event.family = packet.family;
    });
}
