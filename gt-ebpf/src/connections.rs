//! The table of connections of watched pods: from ESTABLISHED until the socket is destroyed.

use aya_ebpf::{
    helpers::bpf_ktime_get_ns,
    macros::map,
    maps::{Array, HashMap},
};
use gt_common::{
    connection::{ADOPTED, CLOSED, Connection, How, LEFT, Lane, PodFacts, Protocol, port_key},
    layout::ABSENT,
    own::OWN_IN_NETWORK_ORDER,
    owner::{DEFAULT_SLOTS, NAMESPACE_PLACES, Owner, Slot, namespace_place},
};

use crate::{
    counters::{count, lost},
    event::AF_INET6,
    layout::offset,
    mem::{Mem, Probed, zero},
    owner,
    packet::{self, Packet},
    places,
};

/// Lanes of inbound ports that are not [`Lane::Data`], by [`port_key`].
#[map]
static PORTS: HashMap<u64, u32> = HashMap::with_max_entries(16 * DEFAULT_SLOTS, 0);

#[map]
static PODS: Array<PodFacts> = Array::with_max_entries(DEFAULT_SLOTS, 0);

/// Whether a connection of a namespace was ever entered, by the namespace's place: most
/// sockets of a node are in namespaces that never were watched, and need no look-up.
#[map]
static ENTERED: Array<u64> = Array::with_max_entries(NAMESPACE_PLACES, 0);

/// A connection of a watched pod.
#[inline(always)]
pub(crate) fn find<M: Mem>(sk: *const u8) -> Option<&'static mut Connection> {
    if M::CHEAP && ENTERED.get(namespace_place(owner::socket_netns::<M>(sk))) == Some(&0) {
        return None;
    }
    places::find(sk)
}

/// Says that a namespace has connections in the table; before they are there.
#[inline(always)]
fn enter(netns: u32) {
    if let Some(entered) = ENTERED.get_ptr_mut(namespace_place(netns)) {
        unsafe { core::ptr::write_volatile(entered, 1) };
    }
}

/// Facts of a pod, as the daemon last told them.
#[inline(always)]
pub(crate) fn facts(pod: Slot) -> PodFacts {
    PODS.get(pod).copied().unwrap_or_default()
}

/// The lane of an inbound port.
#[inline(always)]
pub(crate) fn inbound_lane(pod: Slot, port: u16) -> Lane {
    match unsafe { PORTS.get(port_key(pod, port)) } {
        Some(lane) if *lane == Lane::Health as u32 => Lane::Health,
        Some(lane) if *lane == Lane::Admin as u32 => Lane::Admin,
        _ => Lane::Data,
    }
}

/// The lane of a segment to the pod for which there is no connection.
#[inline(always)]
pub(crate) fn packet_lane(pod: Slot, packet: &Packet) -> Lane {
    if packet::is_on_one_host(packet) { Lane::Loopback } else { inbound_lane(pod, packet.destination_port) }
}

/// Who dialled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Inbound,
    Outbound,
    Unknown,
}

/// The lane of a socket; none of a connection of gt's own.
#[inline(always)]
pub(crate) fn lane<M: Mem>(sk: *const u8, pod: Slot, direction: Direction) -> Option<Lane> {
    match ends::<M>(sk) {
        Ends::Own => return None,
        Ends::OneHost => return Some(Lane::Loopback),
        Ends::Apart => {}
    }
    Some(match direction {
        Direction::Inbound => inbound_lane(pod, M::get::<u16>(sk, offset!(sk_num))),
        Direction::Outbound => Lane::Outbound,
        Direction::Unknown => Lane::Unknown,
    })
}

/// What the addresses of a connection tell.
enum Ends {
    /// A loopback address, or the same address twice.
    OneHost,
    /// [`OneHost`](Self::OneHost), and one of them is [`gt_common::own::OWN_ADDRESS`].
    Own,
    Apart,
}

#[inline(always)]
fn ends<M: Mem>(sk: *const u8) -> Ends {
    let family = M::get::<u16>(sk, offset!(sk_family));
    if family == u16::from(AF_INET6) && offset!(sk_v6_daddr) != ABSENT {
        let remote = M::get::<[u64; 2]>(sk, offset!(sk_v6_daddr));
        let local = M::get::<[u64; 2]>(sk, offset!(sk_v6_rcv_saddr));
        // ::1, and 127.0.0.0/8 mapped.
        let low = u64::from_be(remote[1]);
        if remote[0] == 0 && low >> 24 == 0x00ff_ff7f {
            // In memory, the four bytes of IPv4 are the last ones.
            return one_host((remote[1] >> 32) as u32, (local[1] >> 32) as u32);
        }
        let is_one = remote[0] == 0 && low == 1;
        return if is_one || (remote[0] == local[0] && remote[1] == local[1]) {
            Ends::OneHost
        } else {
            Ends::Apart
        };
    }
    let remote = M::get::<u32>(sk, offset!(sk_daddr));
    let local = M::get::<u32>(sk, offset!(sk_rcv_saddr));
    if u32::from_be(remote) >> 24 == 127 || remote == local {
        return one_host(remote, local);
    }
    Ends::Apart
}

#[inline(always)]
fn one_host(remote: u32, local: u32) -> Ends {
    if remote == OWN_IN_NETWORK_ORDER || local == OWN_IN_NETWORK_ORDER { Ends::Own } else { Ends::OneHost }
}

/// The kernel's time of the packet that is being processed (`tcp_mstamp_refresh`), in nanoseconds of
/// CLOCK_MONOTONIC: spares a look at the clock where that is dearer.
#[inline(always)]
pub(crate) fn packet_time<M: Mem>(tcp: *const u8) -> u64 {
    if M::CHEAP && offset!(tcp_clock_cache) != ABSENT {
        return M::get::<u64>(tcp, offset!(tcp_clock_cache));
    }
    unsafe { bpf_ktime_get_ns() }
}

/// What is entered for a new connection.
#[inline(always)]
fn entry<M: Mem>(
    tcp: *const u8,
    owner: &Owner,
    lane: Lane,
    protocol: u8,
    flags: u8,
    since_ns: u64,
    netns: u32,
) -> Connection {
    // Zero is the number of each `Unknown` and `None`.
    let none = zero();
    Connection {
        since_ns,
        read_jiffies: none,
        read_copied: M::get::<u32>(tcp, offset!(tcp_copied_seq)),
        read_written: M::get::<u32>(tcp, offset!(tcp_write_seq)),
        short_slot: owner.slot as u16,
        short_pod: owner.pod as u16,
        seen: none,
        netns,
        lane: lane as u8,
        protocol,
        flags,
        how: zero() as u8,
        phase: zero() as u8,
        evidence: zero() as u8,
        hc: zero() as u8,
        reserved: zero() as u8,
    }
}

/// Enters a connection that has just become established. A left-over entry at the same address (a socket that
/// was disconnected and used again) is closed first. Whether somebody wants the pod's changes of state as events.
#[inline(always)]
pub(crate) fn open<M: Mem>(
    sk: *const u8,
    tcp: *const u8,
    owner: &Owner,
    direction: Direction,
    netns: u32,
) -> bool {
    if let Some(old) = places::find(sk) {
        leave(old);
        close(old);
        places::remove(sk);
    }
    let Some(lane) = lane::<M>(tcp, owner.pod, direction) else { return false };
    enter(netns);
    let facts = facts(owner.pod);
    // Both ways to get established are answers to a packet.
    let since_ns = packet_time::<M>(tcp);
    let entry = entry::<M>(tcp, owner, lane, facts.protocol, 0, since_ns, netns);
    match places::insert(sk, &entry) {
        Ok(()) => count(owner.slot, lane as u8, |counters| &mut counters.opened),
        Err(_) => lost(|losses| &mut losses.table_full),
    }
    facts.interest == 1
}

/// Takes in a connection that was open before it could be seen opening, and that is not in the table.
///
/// The socket does not enter the table by another way meanwhile: what the iterator shows is ESTABLISHED or later, so
/// [`open`] is over, and the iterator holds the socket (its lock since 5.15, before that the lock of the list it
/// stands in, without which a socket cannot be closed and used again).
#[inline(always)]
pub(crate) fn adopt(sk: *const u8, owner: &Owner, direction: Direction, how: How, pass: u32, netns: u32) {
    const FULL: i64 = -7;

    let Some(lane) = lane::<Probed>(sk, owner.pod, direction) else { return };
    enter(netns);
    let declared = facts(owner.pod).protocol;
    // What was read before is not known: only a declaration tells the protocol.
    let protocol = if declared == Protocol::Unread as u8 { Protocol::Unseen as u8 } else { declared };
    let left = how as u8 != How::None as u8;
    let flags = ADOPTED | if left { LEFT } else { 0 };
    let now = unsafe { bpf_ktime_get_ns() };
    let mut connection = entry::<Probed>(sk, owner, lane, protocol, flags, now, netns);
    connection.seen = pass;
    connection.how = how as u8;
    match places::insert(sk, &connection) {
        Ok(()) => {
            count(owner.slot, lane as u8, |counters| &mut counters.adopted);
            if left {
                count(owner.slot, lane as u8, |counters| &mut counters.left);
            }
        }
        Err(error) if i64::from(error) == FULL => lost(|losses| &mut losses.table_full),
        Err(_) => {}
    }
}

/// The connection is no longer ESTABLISHED; counts once.
#[inline(always)]
pub(crate) fn leave(connection: &mut Connection) {
    if connection.flags & LEFT == 0 {
        connection.flags |= LEFT;
        count(connection.slot(), connection.lane, |counters| &mut counters.left);
    }
}

/// The connection is closed; counts once.
#[inline(always)]
pub(crate) fn close(connection: &mut Connection) {
    if connection.flags & CLOSED == 0 {
        connection.flags |= CLOSED;
        count(connection.slot(), connection.lane, |counters| &mut counters.closed);
    }
}

/// The socket is gone, and so is its entry.
#[inline(always)]
pub(crate) fn end(sk: *const u8) {
    places::remove(sk);
}
