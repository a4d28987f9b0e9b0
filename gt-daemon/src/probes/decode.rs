//! Bytes from the ring buffer to an event: pure, and total over any input.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use gt_common::{
    connection::{ADOPTED, EXITING, Evidence, FIRST, HcState, How, Lane, Phase, Protocol, READ, RST_COUNTED},
    counters::{RstReceived, RstSent},
    event::{Event, Kind},
    owner::Slot,
};

/// What happened, in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    RstSent(RstSent),
    RstReceived(RstReceived),
    /// An established connection began to end by a FIN or at once.
    Teardown(How),
    /// The last RST received on this socket was none after all.
    NoRstReceived,
    /// A socket changed its state, from and to (numbers of include/net/tcp_states.h).
    State(u8, u8),
}

/// An event of a watched owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    pub what: What,
    pub slot: Slot,
    pub lane: Lane,
    /// The connection's ends; IPv4-mapped IPv6 addresses are shown as IPv4.
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Kernel address of the socket; `None` without one.
    pub socket: Option<u64>,
    /// Inode number of the network namespace; `None` when unknown.
    pub netns: Option<u32>,
    /// Whether this event is the teardown of its connection.
    pub first: bool,
    /// What is known of the connection; `None` when it is in no table.
    pub connection: Option<Known>,
}

/// A connection of the table at the moment of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// When it was taken into the table, `CLOCK_MONOTONIC` nanoseconds.
    pub since_ns: u64,
    /// Whether it had been open before.
    pub adopted: bool,
    /// `jiffies` between the last read and the teardown; `None` for no read seen, or another event.
    pub since_read: Option<u32>,
    pub protocol: Protocol,
    /// The judgement, frozen at the teardown.
    pub how: How,
    /// Whether the pod's process was on its way out when its side ended; `false` where the peer's did. Of a pending end that
    /// turns out to be a timeout it says nothing.
    pub exiting: bool,
    /// Whether an RST has been counted for it as a cut, at this event or before.
    pub rst_counted: bool,
    pub phase: Phase,
    pub evidence: Evidence,
    pub hc: HcState,
    /// Bytes of the connection's life, retransmissions included for those sent.
    pub received: u64,
    pub sent: u64,
    /// Bytes at the teardown, all zero for other events.
    pub unread: u32,
    pub unsent: u32,
    pub unacked: u32,
    /// `jiffies` between the last data sent and the teardown.
    pub since_sent: u32,
}

/// Why bytes are no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("an event has {expected} bytes, not {found}", expected = size_of::<Event>())]
    Size { found: usize },
    #[error("unknown kind of event {0}")]
    Kind(u8),
    #[error("unknown detail {detail} of event kind {kind}")]
    Detail { kind: u8, detail: u8 },
    #[error("unknown address family {0}")]
    Family(u8),
    #[error("unknown {what} {value}")]
    Value { what: &'static str, value: u8 },
}

/// Decodes one record of the ring buffer, in the byte order of this machine.
pub fn decode(bytes: &[u8]) -> Result<Observed, DecodeError> {
    if bytes.len() != size_of::<Event>() {
        return Err(DecodeError::Size { found: bytes.len() });
    }
    let mut fields = Fields(bytes);
    let time_ns = u64::from_ne_bytes(fields.take());
    let socket = u64::from_ne_bytes(fields.take());
    let slot = u32::from_ne_bytes(fields.take());
    let netns = u32::from_ne_bytes(fields.take());
    let local: [u8; 16] = fields.take();
    let remote: [u8; 16] = fields.take();
    let local_port = u16::from_ne_bytes(fields.take());
    let remote_port = u16::from_ne_bytes(fields.take());
    let [kind, detail, family, state] = fields.take();
    let since_ns = u64::from_ne_bytes(fields.take());
    let received = u64::from_ne_bytes(fields.take());
    let sent = u64::from_ne_bytes(fields.take());
    let unread = u32::from_ne_bytes(fields.take());
    let unsent = u32::from_ne_bytes(fields.take());
    let unacked = u32::from_ne_bytes(fields.take());
    let since_sent = u32::from_ne_bytes(fields.take());
    let since_read = u32::from_ne_bytes(fields.take());
    let _reserved = u32::from_ne_bytes(fields.take());
    let [lane, protocol, phase, how, evidence, hc, flags, _reserved] = fields.take();
    let first = flags & FIRST != 0 || kind == Kind::Teardown as u8;
    let how = number("teardown", &HOW, how)?;
    let known = Known {
        since_ns,
        adopted: flags & ADOPTED != 0,
        since_read: (first && flags & READ != 0).then_some(since_read),
        protocol: number("protocol", &Protocol::ALL, protocol)?,
        how,
        rst_counted: flags & RST_COUNTED != 0,
        exiting: flags & EXITING != 0 && matches!(how, How::FinSent | How::RstSent | How::Pending),
        phase: number("phase", &Phase::ALL, phase)?,
        evidence: number("evidence", &EVIDENCE, evidence)?,
        hc: number("hc state", &HcState::ALL, hc)?,
        received,
        sent,
        unread,
        unsent,
        unacked,
        since_sent,
    };
    Ok(Observed {
        time_ns,
        what: what(kind, detail, state)?,
        slot,
        lane: number("lane", &Lane::ALL, lane)?,
        local: SocketAddr::new(address(family, local)?, local_port),
        remote: SocketAddr::new(address(family, remote)?, remote_port),
        socket: (socket != 0).then_some(socket),
        netns: (netns != 0).then_some(netns),
        first,
        connection: (since_ns != 0).then_some(known),
    })
}

/// In the order of their numbers.
const HOW: [How; 7] =
    [How::None, How::FinReceived, How::FinSent, How::RstReceived, How::RstSent, How::Timeout, How::Pending];
const EVIDENCE: [Evidence; 3] = [Evidence::None, Evidence::Socket, Evidence::Possible];

/// The value of an enum by its number, which is its place.
fn number<T: Copy>(what: &'static str, all: &[T], value: u8) -> Result<T, DecodeError> {
    all.get(usize::from(value)).copied().ok_or(DecodeError::Value { what, value })
}

/// The fields of an [`Event`] in their order; the length has been checked.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        if let Some((head, rest)) = self.0.split_at_checked(N) {
            field.copy_from_slice(head);
            self.0 = rest;
        }
        field
    }
}

fn what(kind: u8, detail: u8, state: u8) -> Result<What, DecodeError> {
    let unknown = DecodeError::Detail { kind, detail };
    match kind {
        kind if kind == Kind::RstSent as u8 => {
            RstSent::ALL.into_iter().find(|why| *why as u8 == detail).map(What::RstSent).ok_or(unknown)
        }
        kind if kind == Kind::RstReceived as u8 => RstReceived::ALL
            .into_iter()
            .find(|how| *how as u8 == detail)
            .map(What::RstReceived)
            .ok_or(unknown),
        kind if kind == Kind::Teardown as u8 => number("teardown", &HOW, detail).map(What::Teardown),
        kind if kind == Kind::NoRstReceived as u8 => Ok(What::NoRstReceived),
        kind if kind == Kind::State as u8 => Ok(What::State(state, detail)),
        kind => Err(DecodeError::Kind(kind)),
    }
}

fn address(family: u8, bytes: [u8; 16]) -> Result<IpAddr, DecodeError> {
    const AF_INET: u8 = 2;
    const AF_INET6: u8 = 10;
    match family {
        AF_INET => {
            let [a, b, c, d, ..] = bytes;
            Ok(IpAddr::from([a, b, c, d]))
        }
        AF_INET6 => Ok(Ipv6Addr::from(bytes).to_canonical()),
        family => Err(DecodeError::Family(family)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event() -> Event {
        let mut local = [0; 16];
        local[..4].copy_from_slice(&[10, 0, 0, 2]);
        Event {
            time_ns: 7,
            socket: 0,
            slot: 3,
            netns: 9,
            local,
            remote: [0; 16],
            local_port: 8080,
            remote_port: 40000,
            kind: Kind::RstSent as u8,
            detail: RstSent::NoSocket as u8,
            family: 2,
            state: 0,
            since_ns: 0,
            received: 0,
            sent: 0,
            unread: 0,
            unsent: 0,
            unacked: 0,
            since_sent: 0,
            since_read: 0,
            reserved_word: 0,
            lane: 0,
            protocol: 0,
            phase: 0,
            how: 0,
            evidence: 0,
            hc: 0,
            flags: 0,
            reserved: 0,
        }
    }

    fn bytes(event: &Event) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(event.time_ns.to_ne_bytes());
        bytes.extend(event.socket.to_ne_bytes());
        bytes.extend(event.slot.to_ne_bytes());
        bytes.extend(event.netns.to_ne_bytes());
        bytes.extend(event.local);
        bytes.extend(event.remote);
        bytes.extend(event.local_port.to_ne_bytes());
        bytes.extend(event.remote_port.to_ne_bytes());
        bytes.extend([event.kind, event.detail, event.family, event.state]);
        for wide in [event.since_ns, event.received, event.sent] {
            bytes.extend(wide.to_ne_bytes());
        }
        for word in [
            event.unread,
            event.unsent,
            event.unacked,
            event.since_sent,
            event.since_read,
            event.reserved_word,
        ] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend([event.lane, event.protocol, event.phase, event.how]);
        bytes.extend([event.evidence, event.hc, event.flags, event.reserved]);
        bytes
    }

    /// Exercises each field, so that none is read from another's place.
    #[test]
    fn fields() {
        let observed = decode(&bytes(&event())).unwrap();
        assert_eq!(observed.time_ns, 7);
        assert_eq!(observed.slot, 3);
        assert_eq!(observed.netns, Some(9));
        assert_eq!(observed.socket, None);
        assert_eq!(observed.what, What::RstSent(RstSent::NoSocket));
        assert_eq!(observed.local.to_string(), "10.0.0.2:8080");
        assert_eq!(observed.remote.to_string(), "0.0.0.0:40000");
        assert_eq!(observed.connection, None);
    }

    /// Exercises the fields of a teardown, so that the judgement arrives as it was made.
    #[test]
    fn teardowns() {
        let torn = Event {
            kind: Kind::Teardown as u8,
            detail: How::FinReceived as u8,
            since_ns: 1,
            since_read: 2,
            received: 3,
            sent: 4,
            unread: 5,
            unsent: 6,
            unacked: 7,
            since_sent: 8,
            lane: Lane::Outbound as u8,
            protocol: Protocol::Tls as u8,
            phase: Phase::Awaiting as u8,
            how: How::FinReceived as u8,
            evidence: Evidence::Possible as u8,
            hc: HcState::Closing as u8,
            flags: ADOPTED | FIRST | READ,
            ..event()
        };
        let observed = decode(&bytes(&torn)).unwrap();
        assert_eq!(observed.what, What::Teardown(How::FinReceived));
        assert_eq!((observed.lane, observed.first), (Lane::Outbound, true));
        let known = observed.connection.unwrap();
        assert_eq!((known.since_ns, known.since_read, known.received, known.sent), (1, Some(2), 3, 4));
        assert_eq!((known.unread, known.unsent, known.unacked, known.since_sent), (5, 6, 7, 8));
        assert_eq!((known.protocol, known.phase), (Protocol::Tls, Phase::Awaiting));
        assert_eq!((known.evidence, known.hc, known.adopted), (Evidence::Possible, HcState::Closing, true));
        let exiting = |how: How| {
            let event = Event { how: how as u8, flags: FIRST | EXITING, ..torn };
            decode(&bytes(&event)).unwrap().connection.unwrap().exiting
        };
        assert!(!known.exiting && exiting(How::FinSent) && exiting(How::RstSent) && exiting(How::Pending));
        assert!(!exiting(How::FinReceived) && !exiting(How::Timeout));
        let unknown = decode(&bytes(&Event { phase: 6, ..torn }));
        assert_eq!(unknown, Err(DecodeError::Value { what: "phase", value: 6 }));
    }

    /// Exercises IPv6 and IPv4-mapped addresses, so that a mapped peer reads as the IPv4 peer it is.
    #[test]
    fn mapped_addresses_are_shown_as_v4() {
        let mapped = "::ffff:192.0.2.7".parse::<Ipv6Addr>().unwrap().octets();
        let plain = "2001:db8::1".parse::<Ipv6Addr>().unwrap().octets();
        let observed =
            decode(&bytes(&Event { family: 10, local: mapped, remote: plain, ..event() })).unwrap();
        assert_eq!(observed.local.to_string(), "192.0.2.7:8080");
        assert_eq!(observed.remote.to_string(), "[2001:db8::1]:40000");
    }

    /// Exercises wrong records, so that each is refused by name.
    #[test]
    fn wrong_records() {
        assert_eq!(decode(&[]), Err(DecodeError::Size { found: 0 }));
        assert_eq!(decode(&bytes(&Event { kind: 99, ..event() })), Err(DecodeError::Kind(99)));
        assert_eq!(
            decode(&bytes(&Event { detail: 4, ..event() })),
            Err(DecodeError::Detail { kind: 1, detail: 4 })
        );
        assert_eq!(decode(&bytes(&Event { family: 1, ..event() })), Err(DecodeError::Family(1)));
    }

    proptest! {
        /// Exercises any bytes, so that no record can panic the daemon.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _refused_or_not = decode(&bytes);
        }

        #[test]
        fn any_event_of_the_right_size(bytes in proptest::collection::vec(any::<u8>(), 120)) {
            let _refused_or_not = decode(&bytes);
        }
    }
}
