//! Headers of a received packet, read from a `struct sk_buff`.

use gt_common::own::OWN_IN_NETWORK_ORDER;

use crate::{
    event::{AF_INET, AF_INET6},
    layout::offset,
    mem::{Mem, Probed, get},
};

/// Byte 13 of a TCP header (RFC 9293, 3.1).
const FLAGS: u32 = 13;
const RST: u8 = 0x04;

#[inline(always)]
fn header(skb: *const u8, header_offset: u32) -> Option<*const u8> {
    let head = Probed::read::<*const u8>(skb, offset!(skb_head))?;
    let offset = Probed::read::<u16>(skb, header_offset)?;
    Some(unsafe { head.add(usize::from(offset)) })
}

#[inline(always)]
fn tcp(skb: *const u8) -> Option<*const u8> {
    header(skb, offset!(skb_transport_header))
}

/// Whether the packet itself is an RST, to which the kernel never answers with one.
#[inline(always)]
pub(crate) fn is_rst(skb: *const u8) -> Option<bool> {
    let flags = Probed::read::<u8>(tcp(skb)?, FLAGS)?;
    Some(flags & RST != 0)
}

/// The packet's route, bit 0 of the reference cleared (`SKB_DST_NOREF`).
#[inline(always)]
fn route(skb: *const u8) -> Option<*const u8> {
    let refdst = Probed::read::<u64>(skb, offset!(skb_refdst))?;
    Some((refdst & !1) as *const u8)
}

/// `RTN_LOCAL` (include/uapi/linux/rtnetlink.h): the packet was for this host.
#[inline(always)]
pub(crate) fn is_local_v4(skb: *const u8) -> Option<bool> {
    const RTN_LOCAL: u16 = 2;
    Some(Probed::read::<u16>(route(skb)?, offset!(rt_type))? == RTN_LOCAL)
}

/// `RTF_LOCAL` (include/uapi/linux/ipv6_route.h), what `ipv6_unicast_destination` asks.
#[inline(always)]
pub(crate) fn is_local_v6(skb: *const u8) -> Option<bool> {
    const RTF_LOCAL: u32 = 0x8000_0000;
    Some(Probed::read::<u32>(route(skb)?, offset!(rt6_flags))? & RTF_LOCAL != 0)
}

/// Where a received packet came from and where it went.
pub(crate) struct Packet {
    pub(crate) family: u8,
    /// The IP header.
    pub(crate) ip: *const u8,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
}

/// Finds the headers of a received TCP packet.
#[inline(always)]
pub(crate) fn packet(skb: *const u8) -> Option<Packet> {
    let ip = header(skb, offset!(skb_network_header))?;
    let tcp = tcp(skb)?;
    let version = Probed::read::<u8>(ip, 0)? >> 4;
    Some(Packet {
        family: if version == 4 { AF_INET } else { AF_INET6 },
        ip,
        source_port: u16::from_be(Probed::read::<u16>(tcp, 0)?),
        destination_port: u16::from_be(Probed::read::<u16>(tcp, 2)?),
    })
}

/// Whether the packet is one of a connection that the daemon has made inside a pod: it dials by IPv4.
#[inline(always)]
pub(crate) fn is_own(packet: &Packet) -> bool {
    // RFC 791, 3.1: source, then destination.
    packet.family == AF_INET
        && (get::<u32>(packet.ip, 12) == OWN_IN_NETWORK_ORDER
            || get::<u32>(packet.ip, 16) == OWN_IN_NETWORK_ORDER)
}

/// Whether both ends of the packet are on one host, by its addresses: a loopback one, or the same twice.
#[inline(always)]
pub(crate) fn is_on_one_host(packet: &Packet) -> bool {
    if packet.family == AF_INET {
        let source = get::<u32>(packet.ip, 12);
        return u32::from_be(source) >> 24 == 127 || source == get::<u32>(packet.ip, 16);
    }
    // RFC 8200, 3: source, then destination.
    let source = get::<[u64; 2]>(packet.ip, 8);
    let destination = get::<[u64; 2]>(packet.ip, 24);
    let is_one = source[0] == 0 && u64::from_be(source[1]) == 1;
    is_one || (source[0] == destination[0] && source[1] == destination[1])
}
