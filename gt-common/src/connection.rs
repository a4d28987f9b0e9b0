//! What is known of a connection while it lives, and how its end is judged.
//!
//! The words are those of docs/verdicts.md: lane (role and class), phase, teardown, evidence.

use crate::owner::Slot;

/// Role of a connection and, for inbound ones, class of its local port: the dimension of all traffic counts.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Inbound on a port of user traffic: the only one on which requests can be cut.
    Data = 0,
    /// Inbound on a health port.
    Health = 1,
    /// Inbound on an admin port.
    Admin = 2,
    /// The pod connected.
    Outbound = 3,
    /// Both ends are inside the pod's namespace.
    Loopback = 4,
    /// Not known: the connection was not seen opening, or the socket tells too little.
    Unknown = 5,
}

impl Lane {
    /// All lanes, in the order of their counters.
    pub const ALL: [Self; 6] =
        [Self::Data, Self::Health, Self::Admin, Self::Outbound, Self::Loopback, Self::Unknown];
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();
}

/// What is spoken on a connection, by the first bytes the application read, or by declaration.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Nothing read yet.
    Unread = 0,
    /// A request line of HTTP/1 (RFC 9112): the order of reads and writes tells the phase.
    Http1 = 1,
    /// The connection preface of HTTP/2 (RFC 9113, 3.4): only the proxy's count tells.
    Http2 = 2,
    /// A TLS handshake record (RFC 8446, 5.1).
    Tls = 3,
    /// Bytes of no known protocol, or bytes that could not be looked at.
    Unknown = 4,
    /// Taken in while it was open: what came before was not seen, and no request line has been read since.
    Unseen = 5,
}

impl Protocol {
    /// All protocols, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Unread, Self::Http1, Self::Http2, Self::Tls, Self::Unknown, Self::Unseen];
}

/// What a connection was doing at its teardown.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The order of reads and writes says nothing (HTTP/2, TLS, unknown protocols).
    Unknown = 0,
    /// No request is known to be under way.
    Idle = 1,
    /// Bytes were received that the application has not read.
    Unread = 2,
    /// The application read, and has not written since.
    Awaiting = 3,
    /// Bytes of the application are unsent or unacknowledged.
    Sending = 4,
    /// The application wrote last, well after it read, and not long ago: a stream, or a late answer.
    Streaming = 5,
}

impl Phase {
    /// All phases, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Unknown, Self::Idle, Self::Unread, Self::Awaiting, Self::Sending, Self::Streaming];
}

/// The first event that ended an established connection.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Still established.
    None = 0,
    /// The peer closed.
    FinReceived = 1,
    /// The pod closed.
    FinSent = 2,
    /// The peer reset.
    RstReceived = 3,
    /// The pod reset.
    RstSent = 4,
    /// The kernel gave up: retransmissions or keepalives went unanswered.
    Timeout = 5,
    /// Closed at once, and not known yet whether an RST follows: becomes `RstSent` or `Timeout`.
    Pending = 6,
}

impl How {
    /// The ends that are counted.
    pub const ENDS: [Self; 5] =
        [Self::FinReceived, Self::FinSent, Self::RstReceived, Self::RstSent, Self::Timeout];
}

/// What proves that a request was in flight.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Nothing: no cut.
    None = 0,
    /// The socket: bytes unread or unsent, or a request read and not answered.
    Socket = 1,
    /// A stream may have been under way; only the proxy's count could tell.
    Possible = 2,
}

impl Evidence {
    /// The evidence that makes a cut.
    pub const CUTS: [Self; 2] = [Self::Socket, Self::Possible];
}

/// State of a pod's hc sidecar, as its last known answer.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HcState {
    /// Not known, or the pod has no hc.
    Unknown = 0,
    /// 200, taking traffic.
    Open = 1,
    /// 200, waiting for requests in flight.
    Draining = 2,
    /// 503 to the LB.
    Closing = 3,
    /// 503 to the LB and the kubelet.
    Closed = 4,
    /// Something went wrong.
    Fault = 5,
}

impl HcState {
    /// All states, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Unknown, Self::Open, Self::Draining, Self::Closing, Self::Closed, Self::Fault];
}

/// Set in [`Connection::flags`]: taken in while it was established, so its beginning is not known.
pub const ADOPTED: u8 = 1;
/// Set in [`Connection::flags`]: its RST during a request in flight has been counted.
pub const RST_COUNTED: u8 = 2;
/// Set in [`Connection::flags`]: no longer ESTABLISHED.
pub const LEFT: u8 = 4;
/// Set in [`Connection::flags`]: CLOSE has been reached.
pub const CLOSED: u8 = 8;
/// Set in [`Connection::flags`]: the application has read.
pub const READ: u8 = 16;
/// Set in [`Connection::flags`]: the pod's side ended because its process did, so it says nothing where `how` tells of
/// the peer, or of a timeout.
pub const EXITING: u8 = 64;

/// Set in [`Event::flags`](crate::event::Event::flags): this event is the connection's teardown.
pub const FIRST: u8 = 32;

/// A connection of a watched pod, from ESTABLISHED until its socket is destroyed. Keyed by the socket's
/// kernel address; an address used again gets a new entry, since the old one ends with its socket.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// When it was taken into the table, `CLOCK_MONOTONIC` nanoseconds.
    pub since_ns: u64,
    /// `jiffies`, low 32 bits, when the application last read (see [`READ`]); comparable with `tcp_sock.lsndtime`.
    pub read_jiffies: u32,
    /// `tcp_sock.copied_seq` and `.write_seq` after that read (at the beginning, before any).
    pub read_copied: u32,
    /// See `read_copied`.
    pub read_written: u32,
    /// Owner whose counts it belongs to, see [`Connection::slot`]. In 16 bits: so an entry has 40 bytes,
    /// and its place one line of a CPU's cache.
    pub short_slot: u16,
    /// Slot of the pod as a whole, see [`Connection::pod`].
    pub short_pod: u16,
    /// The pass of the iterator that last saw it.
    pub seen: u32,
    /// Inode number of its network namespace: only a pass over that one can miss it.
    pub netns: u32,
    /// A [`Lane`].
    pub lane: u8,
    /// A [`Protocol`].
    pub protocol: u8,
    /// [`ADOPTED`] and so on.
    pub flags: u8,
    /// A [`How`].
    pub how: u8,
    /// A [`Phase`], frozen at the teardown.
    pub phase: u8,
    /// An [`Evidence`], frozen at the teardown.
    pub evidence: u8,
    /// An [`HcState`], frozen at the teardown.
    pub hc: u8,
    /// Zero.
    pub reserved: u8,
}

impl Connection {
    /// Owner whose counts it belongs to.
    #[inline(always)]
    #[must_use]
    pub fn slot(&self) -> Slot {
        Slot::from(self.short_slot)
    }

    /// Slot of the pod as a whole.
    #[inline(always)]
    #[must_use]
    pub fn pod(&self) -> Slot {
        Slot::from(self.short_pod)
    }
}

const _: () = {
    assert!(size_of::<Connection>() == 40);
    assert!(core::mem::offset_of!(Connection, lane) == 32);
};
crate::pod!(Connection);

/// What the daemon tells the kernel programs about a pod.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// An [`HcState`].
    pub hc: u8,
    /// A declared [`Protocol`]; `Unread` (0) where none is declared.
    pub protocol: u8,
    /// 1 while state changes of its connections are wanted as events.
    pub interest: u8,
    /// Zero.
    pub reserved: u8,
}

const _: () = assert!(size_of::<PodFacts>() == 4);
crate::pod!(PodFacts);

/// Key of the class of an inbound port: the pod's slot and the port.
#[must_use]
pub const fn port_key(pod: u32, port: u16) -> u64 {
    (pod as u64) << 16 | port as u64
}

/// Key of a listening port: the namespace's inode number and the port.
#[must_use]
pub const fn listen_key(netns: u32, port: u16) -> u64 {
    (netns as u64) << 16 | port as u64
}

/// What a cut is counted by.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CutKey {
    /// Owner.
    pub slot: u32,
    /// A [`How`] of [`How::ENDS`] for cuts; 0 for RSTs during a request in flight.
    pub how: u8,
    /// For RSTs: 1 sent, 2 received; 0 for cuts.
    pub rst: u8,
    /// An [`Evidence`] of [`Evidence::CUTS`].
    pub evidence: u8,
    /// An [`HcState`].
    pub hc: u8,
}

const _: () = assert!(size_of::<CutKey>() == 8);
crate::pod!(CutKey);

/// What the kernel knows of a connection at the moment it is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Bytes received in order that the application has not read.
    pub unread: u32,
    /// Bytes written that were not sent.
    pub unsent: u32,
    /// Bytes sent that were not acknowledged.
    pub unacked: u32,
    /// Whether the application has read at all.
    pub has_read: bool,
    /// Whether the application has written since it last read.
    pub wrote_since_read: bool,
    /// `jiffies` between the last read and the last data sent.
    pub read_to_sent: u32,
    /// `jiffies` since data was last sent.
    pub since_sent: u32,
    /// `jiffies` since the application last read, if it has.
    pub since_read: u32,
}

/// Limits of the judgement, in `jiffies`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Data sent longer ago than this is no stream any more.
    pub stream_window: u32,
    /// Data sent sooner than this after the read was a prompt answer, not a stream.
    pub prompt_answer: u32,
    /// Acknowledgements may take this long (`TCP_DELACK_MAX` is 200 ms): until then missing ones prove nothing
    /// about a peer that resets.
    pub ack_delay: u32,
}

const _: () = assert!(size_of::<Limits>() == 12);
crate::pod!(Limits);

/// TLS says goodbye in one small record (RFC 8446, 6.1); that many unread bytes are no request.
pub const TLS_ALERT: u32 = 64;

/// What the connection was doing: pure, the same in the kernel and in tests.
#[must_use]
#[inline(always)]
pub fn phase(protocol: u8, moment: &Moment) -> Phase {
    if moment.unread > 0 {
        return Phase::Unread;
    }
    // A request read and not answered is one, whatever an earlier answer still waits for.
    if protocol == Protocol::Http1 as u8 && moment.has_read && !moment.wrote_since_read {
        return Phase::Awaiting;
    }
    if moment.unsent > 0 || moment.unacked > 0 {
        return Phase::Sending;
    }
    if protocol == Protocol::Unread as u8 && !moment.has_read {
        return Phase::Idle;
    }
    if protocol != Protocol::Http1 as u8 {
        return Phase::Unknown;
    }
    Phase::Idle
}

/// Whether the last answer looks like a stream rather than a prompt, finished one.
#[must_use]
#[inline(always)]
pub fn is_stream(moment: &Moment, limits: &Limits) -> bool {
    moment.has_read
        && moment.wrote_since_read
        && moment.read_to_sent >= limits.prompt_answer
        && moment.since_sent <= limits.stream_window
}

/// Judges a teardown: the phase, and what proves a cut.
///
/// Where the pod closes with a FIN, what it has written is still delivered: only a request read and not
/// answered is cut. A peer's RST carries its acknowledgement unseen, so bytes that were sent just now and not
/// acknowledged yet prove nothing there.
#[must_use]
#[inline(always)]
pub fn judge(how: u8, protocol: u8, moment: &Moment, limits: &Limits) -> (Phase, Evidence) {
    let mut phase = phase(protocol, moment);
    if phase as u8 == Phase::Idle as u8 && protocol == Protocol::Http1 as u8 && is_stream(moment, limits) {
        phase = Phase::Streaming;
    }
    if protocol == Protocol::Http2 as u8 {
        return (phase, Evidence::None);
    }
    let fin_sent = how == How::FinSent as u8;
    let rst_received = how == How::RstReceived as u8;
    let evidence = match phase {
        Phase::Unknown | Phase::Idle => Evidence::None,
        Phase::Unread if protocol == Protocol::Tls as u8 && moment.unread <= TLS_ALERT => Evidence::None,
        Phase::Unread if protocol == Protocol::Unseen as u8 && moment.unread <= TLS_ALERT => {
            Evidence::Possible
        }
        Phase::Unread | Phase::Awaiting => Evidence::Socket,
        Phase::Sending if fin_sent => Evidence::None,
        Phase::Sending if rst_received && moment.unsent == 0 && moment.since_sent <= limits.ack_delay => {
            // Nor does a chunk that is on its way end a stream.
            if protocol == Protocol::Http1 as u8 && is_stream(moment, limits) {
                Evidence::Possible
            } else {
                Evidence::None
            }
        }
        Phase::Sending => Evidence::Socket,
        Phase::Streaming if fin_sent => Evidence::None,
        Phase::Streaming => Evidence::Possible,
    };
    (phase, evidence)
}

/// What the first bytes that an application reads tell of the protocol.
#[must_use]
#[inline(always)]
pub fn recognize(first: [u8; 4]) -> Protocol {
    match &first {
        b"PRI " => Protocol::Http2,
        b"GET " | b"HEAD" | b"POST" | b"PUT " | b"DELE" | b"CONN" | b"OPTI" | b"TRAC" | b"PATC" => {
            Protocol::Http1
        }
        [0x16, 0x03, _, _] => Protocol::Tls,
        _ => Protocol::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { stream_window: 1250, prompt_answer: 63, ack_delay: 63 };
    const HTTP1: u8 = Protocol::Http1 as u8;

    fn answered() -> Moment {
        Moment {
            unread: 0,
            unsent: 0,
            unacked: 0,
            has_read: true,
            wrote_since_read: true,
            read_to_sent: 1,
            since_sent: 1,
            since_read: 1,
        }
    }

    fn evidence(how: How, protocol: Protocol, moment: Moment) -> Evidence {
        judge(how as u8, protocol as u8, &moment, &LIMITS).1
    }

    /// Exercises each phase by the one fact that makes it.
    #[test]
    fn phases() {
        let of = |moment| judge(How::FinReceived as u8, HTTP1, &moment, &LIMITS).0;
        assert_eq!(of(answered()), Phase::Idle);
        assert_eq!(of(Moment { unread: 1, ..answered() }), Phase::Unread);
        assert_eq!(of(Moment { unsent: 1, ..answered() }), Phase::Sending);
        assert_eq!(of(Moment { unacked: 1, ..answered() }), Phase::Sending);
        assert_eq!(of(Moment { wrote_since_read: false, ..answered() }), Phase::Awaiting);
        assert_eq!(of(Moment { has_read: false, wrote_since_read: false, ..answered() }), Phase::Idle);
        assert_eq!(of(Moment { read_to_sent: 63, ..answered() }), Phase::Streaming);
        assert_eq!(of(Moment { read_to_sent: 63, since_sent: 1251, ..answered() }), Phase::Idle);
    }

    /// Exercises ends that are normal, so that none of them is called a cut.
    #[test]
    fn normal_ends_are_no_cuts() {
        for how in How::ENDS {
            assert_eq!(evidence(how, Protocol::Http1, answered()), Evidence::None, "{how:?}");
        }
        // `Connection: close`: the FIN waits behind the answer.
        let closing = Moment { unsent: 100, unacked: 100, ..answered() };
        assert_eq!(evidence(How::FinSent, Protocol::Http1, closing), Evidence::None);
        // The peer has the answer and resets before its acknowledgement was due.
        let fresh = Moment { unacked: 100, since_sent: 1, ..answered() };
        assert_eq!(evidence(How::RstReceived, Protocol::Http1, fresh), Evidence::None);
        // A TLS goodbye that the application had no time to read.
        let goodbye = Moment { unread: 31, ..answered() };
        assert_eq!(evidence(How::FinReceived, Protocol::Tls, goodbye), Evidence::None);
    }

    /// Exercises ends that cut, so that each is proved by what proves it.
    #[test]
    fn cuts() {
        let waiting = Moment { wrote_since_read: false, ..answered() };
        for how in How::ENDS {
            assert_eq!(evidence(how, Protocol::Http1, waiting), Evidence::Socket, "{how:?}");
            // No order of reads and writes proves anything where requests overlap or bytes are sealed.
            assert_eq!(evidence(how, Protocol::Http2, waiting), Evidence::None, "{how:?}");
            assert_eq!(evidence(how, Protocol::Tls, waiting), Evidence::None, "{how:?}");
            assert_eq!(evidence(how, Protocol::Unknown, waiting), Evidence::None, "{how:?}");
        }
        let stuck = Moment { unacked: 100, since_sent: 1000, ..answered() };
        assert_eq!(evidence(How::RstReceived, Protocol::Http1, stuck), Evidence::Socket);
        // What was not seen opening may be TLS: a few bytes may be a goodbye or a request.
        let few = Moment { unread: 40, ..answered() };
        assert_eq!(evidence(How::FinReceived, Protocol::Unseen, few), Evidence::Possible);
        assert_eq!(evidence(How::FinReceived, Protocol::Unknown, few), Evidence::Socket);
        let many = Moment { unread: 65, ..answered() };
        assert_eq!(evidence(How::FinReceived, Protocol::Unseen, many), Evidence::Socket);
        let sealed = Moment { unsent: 1, ..answered() };
        assert_eq!(evidence(How::FinReceived, Protocol::Tls, sealed), Evidence::Socket);
        assert_eq!(evidence(How::FinReceived, Protocol::Http2, sealed), Evidence::None);
        let stream = Moment { read_to_sent: 500, ..answered() };
        assert_eq!(evidence(How::FinReceived, Protocol::Http1, stream), Evidence::Possible);
        assert_eq!(evidence(How::FinSent, Protocol::Http1, stream), Evidence::None);
        let last_chunk = Moment { unacked: 10, ..stream };
        assert_eq!(evidence(How::RstReceived, Protocol::Http1, last_chunk), Evidence::Possible);
        // The next request is read while the last answer is not acknowledged yet.
        let overlap = Moment { unacked: 40, wrote_since_read: false, ..answered() };
        for how in How::ENDS {
            assert_eq!(evidence(how, Protocol::Http1, overlap), Evidence::Socket, "{how:?}");
        }
    }

    /// Exercises first bytes, so that a protocol is never guessed.
    #[test]
    fn first_bytes() {
        assert_eq!(recognize(*b"GET "), Protocol::Http1);
        assert_eq!(recognize(*b"PRI "), Protocol::Http2);
        assert_eq!(recognize([0x16, 0x03, 0x01, 0x02]), Protocol::Tls);
        assert_eq!(recognize(*b"GETX"), Protocol::Unknown);
        assert_eq!(recognize([0; 4]), Protocol::Unknown);
    }
}
