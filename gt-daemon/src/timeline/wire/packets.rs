//! Segments of TCP in a pcap or pcapng file, read piece by piece.

use std::{
    io::Read,
    net::{IpAddr, SocketAddr},
};

use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, PcapHeader, create_reader};

use super::super::note::Notes;

/// What is read at once at first, and the largest block that is taken for one.
const PIECE: usize = 65_536;
const LARGEST: usize = 16 << 20;

const AGAIN: &str = "capture with tcpdump -w, end it with SIGINT, and copy the file again";

/// One segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// UTC, microseconds.
    pub ts: i64,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub seq: u32,
    pub syn: bool,
    pub ack: bool,
    /// The number of the byte that is expected from the other side; nothing where `ack` is not set.
    pub acknowledged: u32,
    pub fin: bool,
    pub rst: bool,
    /// The bytes of it that were captured.
    pub data: &'a [u8],
    /// How many it had.
    pub length: usize,
}

/// Calls `take` with each segment. Damage ends the file there, and is a note.
pub fn each(file: impl Read + Send, notes: &mut Notes, mut take: impl FnMut(&Segment<'_>)) {
    let mut reader = match create_reader(PIECE, file) {
        Ok(reader) => reader,
        Err(error) => return notes.damaged(None, why(&error), AGAIN),
    };
    let (mut links, mut number, mut size) = (Links::default(), 0_u64, PIECE);
    loop {
        match reader.next() {
            Ok((length, block)) => {
                if let Some((ts, link, data)) = links.packet(&block) {
                    number += 1;
                    match segment(ts, link, data) {
                        Found::Segment(segment) => take(&segment),
                        Found::Other => {}
                        Found::Fragment => notes.damaged(
                            Some(number),
                            "is a piece of a packet that was split on its way (counted in packets)",
                            "none: what it held is not known",
                        ),
                        Found::UnknownLink => {
                            let cause = format!("has packets of link type {}, which gt cannot read", link.0);
                            return notes.damaged(None, cause, "capture on the pod's device, or on `any`");
                        }
                    }
                }
                reader.consume(length);
            }
            Err(PcapError::Eof) => return,
            Err(PcapError::Incomplete(_) | PcapError::BufferTooSmall) => {
                if reader.reader_exhausted() {
                    return notes.damaged(None, format!("is cut off after packet {number}"), AGAIN);
                }
                let before = reader.data().len();
                let refilled = reader.refill().is_ok();
                if (!refilled || reader.data().len() == before) && !reader.reader_exhausted() {
                    size = size.saturating_mul(2);
                    if size > LARGEST || !reader.grow(size) {
                        let cause = format!("has a packet after {number} others that is too large to be one");
                        return notes.damaged(None, cause, AGAIN);
                    }
                }
            }
            Err(PcapError::UnexpectedEof) => {
                return notes.damaged(None, format!("is cut off after packet {number}"), AGAIN);
            }
            Err(error) => {
                return notes.damaged(None, format!("{} after packet {number}", why(&error)), AGAIN);
            }
        }
    }
}

fn why(error: &PcapError<&[u8]>) -> String {
    match error {
        PcapError::Eof => "is empty".to_owned(),
        PcapError::HeaderNotRecognized => "is no pcap and no pcapng file".to_owned(),
        PcapError::Incomplete(_) | PcapError::UnexpectedEof => "is cut off in its first bytes".to_owned(),
        PcapError::ReadError => "cannot be read".to_owned(),
        _ => "has bytes that no capture has".to_owned(),
    }
}

/// What the headers of a file say of the packets that follow.
#[derive(Debug, Default)]
struct Links {
    legacy: Option<(Linktype, bool)>,
    /// Of pcapng: link, units a second, seconds to add.
    interfaces: Vec<(Linktype, u64, i64)>,
}

impl Links {
    fn packet<'a>(&mut self, block: &'a PcapBlockOwned<'_>) -> Option<(i64, Linktype, &'a [u8])> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.legacy = Some((header.network, is_nanoseconds(header)));
                None
            }
            PcapBlockOwned::Legacy(packet) => {
                let (link, nanoseconds) = self.legacy?;
                let part = i64::from(packet.ts_usec) / if nanoseconds { 1000 } else { 1 };
                let data = packet.data.get(..packet.data.len().min(usize::try_from(packet.caplen).ok()?))?;
                Some((i64::from(packet.ts_sec) * 1_000_000 + part, link, data))
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                self.interfaces.clear();
                None
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                let units = interface.ts_resolution().filter(|units| *units > 0).unwrap_or(1_000_000);
                self.interfaces.push((interface.linktype, units, interface.ts_offset()));
                None
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let (link, units, offset) = *self.interfaces.get(usize::try_from(packet.if_id).ok()?)?;
                let count = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
                let us = i64::try_from(count * 1_000_000 / u128::from(units)).ok()?;
                let data = packet.data.get(..packet.data.len().min(usize::try_from(packet.caplen).ok()?))?;
                Some((us.saturating_add(offset.saturating_mul(1_000_000)), link, data))
            }
            PcapBlockOwned::NG(_) => None,
        }
    }
}

fn is_nanoseconds(header: &PcapHeader) -> bool {
    header.is_nanosecond_precision()
}

enum Found<'a> {
    Segment(Segment<'a>),
    Fragment,
    Other,
    UnknownLink,
}

fn segment(ts: i64, link: Linktype, data: &[u8]) -> Found<'_> {
    let packet = match link {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
        // Cooked captures of `-i any`: the protocol, and what is before the packet.
        Linktype::LINUX_SLL => cooked(data, 14, 16),
        Linktype::LINUX_SLL2 => cooked(data, 0, 20),
        // 0 and 108: BSD's loopback; 12, 14, 101, 228, 229: no head at all.
        Linktype(0 | 108) => data.get(4..).and_then(|data| LaxSlicedPacket::from_ip(data).ok()),
        Linktype(12 | 14 | 101 | 228 | 229) => LaxSlicedPacket::from_ip(data).ok(),
        _ => return Found::UnknownLink,
    };
    let Some(packet) = packet else { return Found::Other };
    let Some(net) = &packet.net else { return Found::Other };
    let (source, target) = match net {
        LaxNetSlice::Ipv4(ip) => {
            (IpAddr::V4(ip.header().source_addr()), IpAddr::V4(ip.header().destination_addr()))
        }
        LaxNetSlice::Ipv6(ip) => {
            (IpAddr::V6(ip.header().source_addr()), IpAddr::V6(ip.header().destination_addr()))
        }
        LaxNetSlice::Arp(_) => return Found::Other,
    };
    let is_tcp = net.ip_payload_ref().is_some_and(|payload| payload.ip_number == etherparse::IpNumber::TCP);
    if is_tcp && net.ip_payload_ref().is_some_and(|payload| payload.fragmented) {
        return Found::Fragment;
    }
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { return Found::Other };
    let head = usize::from(tcp.data_offset()) * 4;
    let length = declared(net).map_or(tcp.payload().len(), |length| length.saturating_sub(head));
    Found::Segment(Segment {
        ts,
        from: SocketAddr::new(source, tcp.source_port()),
        to: SocketAddr::new(target, tcp.destination_port()),
        seq: tcp.sequence_number(),
        syn: tcp.syn(),
        ack: tcp.ack(),
        acknowledged: tcp.acknowledgment_number(),
        fin: tcp.fin(),
        rst: tcp.rst(),
        data: tcp.payload().get(..tcp.payload().len().min(length)).unwrap_or_default(),
        length,
    })
}

fn cooked(data: &[u8], protocol: usize, head: usize) -> Option<LaxSlicedPacket<'_>> {
    let is_ip = matches!(data.get(protocol..protocol + 2)?, [0x08, 0x00] | [0x86, 0xdd]);
    is_ip.then(|| LaxSlicedPacket::from_ip(data.get(head..)?).ok())?
}

/// How long the segment was, by the length in the packet's own head; `None` where that tells nothing, as where the
/// device splits large ones (length 0).
fn declared(net: &LaxNetSlice<'_>) -> Option<usize> {
    let length = match net {
        LaxNetSlice::Ipv4(ip) => {
            let total = usize::from(ip.header().total_len());
            total.checked_sub(usize::from(ip.header().ihl()) * 4)?
        }
        LaxNetSlice::Ipv6(ip) => {
            // Extension headers are rare, and counted as data then: a hole, which is never taken for anything.
            usize::from(ip.header().payload_length())
        }
        LaxNetSlice::Arp(_) => return None,
    };
    (length > 0).then_some(length)
}

#[cfg(test)]
#[path = "packets_tests.rs"]
pub(in super::super) mod tests;
