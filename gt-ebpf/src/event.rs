//! Events for the daemon, through one ring buffer. A full ring is counted and never waited for.

use aya_ebpf::{
    helpers::{bpf_ktime_get_ns, bpf_probe_read_kernel_buf},
    macros::map,
    maps::RingBuf,
};
use gt_common::{
    event::{Event, Kind, STATE_NONE},
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
static EVENTS: RingBuf = RingBuf::with_byte_size(1 << 20, 0);

pub(crate) const AF_INET: u8 = 2;
pub(crate) const AF_INET6: u8 = 10;

/// Fills an event in the ring's own memory and sends it.
#[inline(always)]
fn send(fill: impl FnOnce(&mut Event)) {
    match EVENTS.reserve::<Event>(0) {
        Some(mut entry) => {
            let event = entry.as_mut_ptr();
            // Every byte is written before anything is read: reserved memory holds an old event.
            unsafe {
                (*event).time_ns = bpf_ktime_get_ns();
                (*event).local = [0; 16];
                (*event).remote = [0; 16];
                fill(&mut *event);
            }
            entry.submit(0);
        }
        None => lost(|losses| losses.ring_full += 1),
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
fn local_port(sk: *const u8, state: u8) -> u16 {
    match Probed::read::<u16>(sk, offset!(sk_num)) {
        Some(0) if is_full_socket(state) => {
            u16::from_be(Probed::read::<u16>(sk, offset!(inet_sport)).unwrap_or(0))
        }
        port => port.unwrap_or(0),
    }
}

/// Reports what happened on a socket. Works on every kind of socket, since all begin with a `sock_common`.
#[inline(always)]
pub(crate) fn on_socket(kind: Kind, detail: u8, slot: Slot, netns: u32, sk: *const u8, state: u8) {
    send(|event| {
        let family = Probed::read::<u16>(sk, offset!(sk_family)).unwrap_or(0);
        if family == u16::from(AF_INET6) && offset!(sk_v6_daddr) != ABSENT {
            address(sk, offset!(sk_v6_rcv_saddr), &mut event.local);
            address(sk, offset!(sk_v6_daddr), &mut event.remote);
        } else {
            address(sk, offset!(sk_rcv_saddr), &mut event.local[..4]);
            address(sk, offset!(sk_daddr), &mut event.remote[..4]);
        }
        event.socket = sk as u64;
        event.slot = slot;
        event.netns = netns;
        event.local_port = local_port(sk, state);
        event.remote_port = u16::from_be(Probed::read::<u16>(sk, offset!(sk_dport)).unwrap_or(0));
        event.kind = kind as u8;
        event.detail = detail;
        event.family = family as u8;
        event.state = state;
    });
}

/// Reports what happened to a received packet that has no socket: its destination is local.
#[inline(always)]
pub(crate) fn on_packet(kind: Kind, detail: u8, slot: Slot, netns: u32, packet: &Packet) {
    send(|event| {
        // RFC 791 and RFC 8200: source, then destination.
        if packet.family == AF_INET {
            address(packet.ip, 12, &mut event.remote[..4]);
            address(packet.ip, 16, &mut event.local[..4]);
        } else {
            address(packet.ip, 8, &mut event.remote);
            address(packet.ip, 24, &mut event.local);
        }
        event.socket = 0;
        event.slot = slot;
        event.netns = netns;
        event.local_port = packet.destination_port;
        event.remote_port = packet.source_port;
        event.kind = kind as u8;
        event.detail = detail;
        event.family = packet.family;
        event.state = STATE_NONE;
    });
}
