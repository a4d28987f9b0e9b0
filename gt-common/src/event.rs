//! Events that the kernel programs send through the ring buffer, one fixed size for all.

/// What an [`Event`] reports.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An RST left; `detail` is a [`RstSent`](crate::counters::RstSent).
    RstSent = 1,
    /// An RST arrived and was acted on; `detail` is a [`RstReceived`](crate::counters::RstReceived).
    RstReceived = 2,
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
}

const _: () = {
    assert!(size_of::<Event>() == 64);
    assert!(core::mem::offset_of!(Event, local) == 24);
    assert!(core::mem::offset_of!(Event, local_port) == 56);
    assert!(core::mem::offset_of!(Event, state) == 63);
};
crate::pod!(Event);
