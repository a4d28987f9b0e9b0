//! A connection that began to end, as the kernel judged it.

use gt_common::{
    connection::{Evidence, How, Lane, Phase, Protocol},
    owner::Slot,
};

use crate::probes::decode::{Known, Observed};

/// Tells one connection from every other: a socket's address is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    pub socket: u64,
    pub since_ns: u64,
}

impl Id {
    /// Of an event's connection; `None` for one that is in no table.
    #[must_use]
    pub fn of(event: &Observed) -> Option<Self> {
        Some(Self { socket: event.socket?, since_ns: event.connection?.since_ns })
    }
}

/// How a request was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ending {
    FinReceived,
    FinSent,
    RstReceived,
    RstSent,
    Timeout,
    /// The stream alone was reset; its connection lived on.
    StreamReset,
    /// The proxy counted a connection that the kernel's events did not show.
    Unseen,
}

impl Ending {
    /// Those that end a connection, as the kernel tells; the others are the proxy's word.
    pub const OF_CONNECTIONS: [Self; 5] =
        [Self::FinReceived, Self::FinSent, Self::RstReceived, Self::RstSent, Self::Timeout];

    /// The word in metrics and records.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::FinReceived => "fin_received",
            Self::FinSent => "fin_sent",
            Self::RstReceived => "rst_received",
            Self::RstSent => "rst_sent",
            Self::Timeout => "timeout",
            Self::StreamReset => "stream_reset",
            Self::Unseen => "unseen",
        }
    }

    /// `None` while it is not known, or for a connection that goes on.
    #[must_use]
    pub fn of(how: How) -> Option<Self> {
        match how {
            How::FinReceived => Some(Self::FinReceived),
            How::FinSent => Some(Self::FinSent),
            How::RstReceived => Some(Self::RstReceived),
            How::RstSent => Some(Self::RstSent),
            How::Timeout => Some(Self::Timeout),
            How::None | How::Pending => None,
        }
    }

    /// Whether a proxy says of it that the peer closed: a connection that timed out reads as an error from there.
    #[must_use]
    pub fn is_remote(self) -> bool {
        matches!(self, Self::FinReceived | Self::RstReceived | Self::Timeout)
    }
}

/// What proves a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Proof {
    /// The proxy's own counters.
    L7,
    /// The socket.
    Socket,
    /// Nothing proves it, and nothing proves the contrary.
    Possible,
}

impl Proof {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::L7, Self::Socket, Self::Possible];

    /// The word in metrics and records.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::L7 => "l7",
            Self::Socket => "socket",
            Self::Possible => "possible",
        }
    }

    /// What the kernel programs found; `None` for no cut.
    #[must_use]
    pub fn of(evidence: Evidence) -> Option<Self> {
        match evidence {
            Evidence::None => None,
            Evidence::Socket => Some(Self::Socket),
            Evidence::Possible => Some(Self::Possible),
        }
    }
}

/// Where an RST of a connection went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    Sent,
    Received,
}

impl Direction {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Sent, Self::Received];

    /// The word in metrics and records.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Received => "received",
        }
    }
}

/// A teardown of an inbound connection of user traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    pub id: Id,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub at_ns: u64,
    pub slot: Slot,
    /// `None` while it is not known whether an RST follows.
    pub ending: Option<Ending>,
    /// What the kernel knew.
    pub known: Known,
    /// The first RST of the connection.
    pub rst: Option<Direction>,
    pub event: Observed,
}

impl Torn {
    /// From the first event of a connection's end; `None` for any other event.
    #[must_use]
    pub fn of(event: &Observed) -> Option<Self> {
        let known = event.connection?;
        if !event.first || event.lane != Lane::Data {
            return None;
        }
        let rst = match known.how {
            How::RstReceived => Some(Direction::Received),
            How::RstSent => Some(Direction::Sent),
            _ => None,
        };
        Some(Self {
            id: Id::of(event)?,
            at_ns: event.time_ns,
            slot: event.slot,
            ending: Ending::of(known.how),
            known,
            rst,
            event: *event,
        })
    }

    /// How likely a request was in flight on it, by what the socket showed: the lower the likelier.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match (self.known.evidence, self.known.phase) {
            (Evidence::Socket, Phase::Awaiting) => 0,
            // The proxy may not have read it: then it counts another, and the socket's word stands.
            (Evidence::Socket, Phase::Unread) => 1,
            (Evidence::Socket, _) => 2,
            (Evidence::Possible, _) => 3,
            (Evidence::None, Phase::Awaiting | Phase::Unread | Phase::Sending | Phase::Streaming) => 4,
            (Evidence::None, Phase::Unknown) if self.known.protocol != Protocol::Unread => 5,
            (Evidence::None, Phase::Unknown | Phase::Idle) => 6,
        }
    }
}
