//! Counts kept in the kernel, one set per owner and CPU. A full ring buffer loses detail, never these.

use crate::connection::Lane;

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

/// Counts of one owner on one [`Lane`] and one CPU since it has been watched.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounters {
    /// Connections that became ESTABLISHED.
    pub opened: u64,
    /// Connections taken in while they were open.
    pub adopted: u64,
    /// Connections that are no longer ESTABLISHED.
    pub left: u64,
    /// Connections that became CLOSE.
    pub closed: u64,
    /// RSTs sent, by [`RstSent`].
    pub rst_sent: [u64; 4],
    /// RSTs received and acted on, by [`RstReceived`].
    pub rst_received: [u64; 2],
}

impl LaneCounters {
    /// Adds another CPU's counts.
    pub fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.adopted += other.adopted;
        self.left += other.left;
        self.closed += other.closed;
        for (sum, part) in self.rst_sent.iter_mut().zip(other.rst_sent) {
            *sum += part;
        }
        for (sum, part) in self.rst_received.iter_mut().zip(other.rst_received) {
            *sum += part;
        }
    }
}

/// Counts of one owner, by [`Lane`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// In the order of [`Lane::ALL`].
    pub lanes: [LaneCounters; Lane::COUNT],
}

const _: () = assert!(size_of::<Counters>() == Lane::COUNT * 10 * 8);
crate::pod!(Counters);

impl Counters {
    /// Adds another CPU's counts.
    pub fn add(&mut self, other: &Self) {
        for (sum, part) in self.lanes.iter_mut().zip(&other.lanes) {
            sum.add(part);
        }
    }

    /// All lanes together.
    #[must_use]
    pub fn total(&self) -> LaneCounters {
        let mut total = LaneCounters::default();
        for lane in &self.lanes {
            total.add(lane);
        }
        total
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
    /// Connections of watched pods that found no place in the table: they are in no count.
    pub table_full: u64,
    /// Cuts that found no place among the cut counters.
    pub cuts_full: u64,
    /// Connections whose end was seen, but none of the events before it: they were not judged.
    pub unjudged: u64,
}

const _: () = assert!(size_of::<Losses>() == 5 * 8);
crate::pod!(Losses);

impl Losses {
    /// Adds another CPU's losses.
    pub fn add(&mut self, other: &Self) {
        self.ring_full += other.ring_full;
        self.kernel_read += other.kernel_read;
        self.table_full += other.table_full;
        self.cuts_full += other.cuts_full;
        self.unjudged += other.unjudged;
    }
}
