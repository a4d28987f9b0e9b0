//! Counts kept in the kernel, one set per owner and CPU. A full ring buffer loses detail, never these.

/// Why the kernel sent an RST, as far as every supported kernel can tell.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RstSent {
    /// `tcp_send_active_reset`: the local side aborted (unread data at close, linger 0, out of memory, ..).
    Active = 0,
    /// A segment that an existing socket refused.
    Reply = 1,
    /// A segment that hit a TIME_WAIT socket.
    TimeWait = 2,
    /// A segment for which there is no socket.
    NoSocket = 3,
}

impl RstSent {
    /// All reasons, in the order of their counters.
    pub const ALL: [Self; 4] = [Self::Active, Self::Reply, Self::TimeWait, Self::NoSocket];
}

/// In which situation the kernel acted on a received RST.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RstReceived {
    /// A connection that had been established, or was being accepted, was reset.
    Reset = 0,
    /// A connection attempt was refused (SYN_SENT).
    Refused = 1,
}

impl RstReceived {
    /// All situations, in the order of their counters.
    pub const ALL: [Self; 2] = [Self::Reset, Self::Refused];
}

/// Counts of one owner on one CPU since it has been watched.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections that became ESTABLISHED.
    pub opened: u64,
    /// Connections that had been ESTABLISHED and became CLOSE.
    pub closed: u64,
    /// RSTs sent, by [`RstSent`].
    pub rst_sent: [u64; 4],
    /// RSTs received and acted on, by [`RstReceived`].
    pub rst_received: [u64; 2],
}

const _: () = assert!(size_of::<Counters>() == 8 * 8);
crate::pod!(Counters);

impl Counters {
    /// Adds another CPU's counts.
    pub fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.closed += other.closed;
        for (sum, part) in self.rst_sent.iter_mut().zip(other.rst_sent) {
            *sum += part;
        }
        for (sum, part) in self.rst_received.iter_mut().zip(other.rst_received) {
            *sum += part;
        }
    }
}

/// Failures inside the kernel programs on one CPU: what gt did not see is told, never silent.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Events dropped because the ring buffer was full.
    pub ring_full: u64,
    /// Reads of kernel memory that failed, so that an event was not attributed.
    pub kernel_read: u64,
}

const _: () = assert!(size_of::<Losses>() == 2 * 8);
crate::pod!(Losses);
