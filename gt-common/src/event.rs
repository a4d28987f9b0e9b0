//! Events that the kernel programs send through the ring buffer, one fixed size for all.

/// What an [`Event`] reports.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An RST left; `detail` is a [`RstSent`](crate::counters::RstSent).
    RstSent = 1,
    /// An RST arrived and was acted on; `detail` is a [`RstReceived`](crate::counters::RstReceived).
    RstReceived = 2,
    /// An established connection began to end by a FIN or at once, and was judged. Where an RST is the first
    /// event, that event has [`FIRST`](crate::connection::FIRST) set instead.
    Teardown = 3,
    /// A socket of a pod of interest changed its state; `detail` is the new state, `state` the old one.
    State = 4,
    /// The last `RstReceived` of this socket was none: data for a socket that no longer reads was answered
    /// with an RST, and the kernel resets its own side in the same way.
    NoRstReceived = 5,
}

/// State number for an event that belongs to no socket. The kernel's own numbers are 1 (ESTABLISHED) to 13.
pub const STATE_NONE: u8 = 0;

/// One event of a watched owner.
///
/// Addresses are 16 bytes in network order; with `family` 2 (AF_INET) the first four count.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    /// Kernel address of the socket, 0 without one: tells connections apart while they live.
    pub socket: u64,
    /// Owner, see [`owner`](crate::owner).
    pub slot: u32,
    /// Inode number of the network namespace, 0 when unknown.
    pub netns: u32,
    /// Local address.
    pub local: [u8; 16],
    /// Remote address.
    pub remote: [u8; 16],
    /// Local port, host order.
    pub local_port: u16,
    /// Remote port, host order.
    pub remote_port: u16,
    /// A [`Kind`].
    pub kind: u8,
    /// Meaning depends on `kind`.
    pub detail: u8,
    /// AF_INET (2) or AF_INET6 (10).
    pub family: u8,
    /// State of the socket, [`STATE_NONE`] without one.
    pub state: u8,
    /// When the connection was taken into the table, nanoseconds; 0 when it is in none.
    pub since_ns: u64,
    /// Bytes of the connection's life, retransmissions included for those sent.
    pub received: u64,
    /// See `received`.
    pub sent: u64,
    /// Bytes received and not read at the teardown.
    pub unread: u32,
    /// Bytes written and not sent at the teardown.
    pub unsent: u32,
    /// Bytes sent and not acknowledged at the teardown.
    pub unacked: u32,
    /// `jiffies` between the last data sent and the teardown.
    pub since_sent: u32,
    /// `jiffies` between the last read and the teardown, where [`READ`](crate::connection::READ) is set.
    pub since_read: u32,
    /// Zero.
    pub reserved_word: u32,
    /// A [`Lane`](crate::connection::Lane).
    pub lane: u8,
    /// A [`Protocol`](crate::connection::Protocol).
    pub protocol: u8,
    /// A [`Phase`](crate::connection::Phase), as frozen at the teardown.
    pub phase: u8,
    /// A [`How`](crate::connection::How), of the teardown this event is or refers to.
    pub how: u8,
    /// An [`Evidence`](crate::connection::Evidence), as frozen at the teardown.
    pub evidence: u8,
    /// An [`HcState`](crate::connection::HcState), as frozen at the teardown.
    pub hc: u8,
    /// Flags of the connection.
    pub flags: u8,
    /// Zero.
    pub reserved: u8,
}

const _: () = {
    assert!(size_of::<Event>() == 120);
    assert!(core::mem::offset_of!(Event, since_ns) == 64);
    assert!(core::mem::offset_of!(Event, lane) == 112);
    assert!(core::mem::offset_of!(Event, local) == 24);
    assert!(core::mem::offset_of!(Event, local_port) == 56);
    assert!(core::mem::offset_of!(Event, state) == 63);
};
crate::pod!(Event);
