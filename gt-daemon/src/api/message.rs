//! What a stream is made of: one message an event of `text/event-stream`, or one a line.

use serde::{Deserialize, Serialize};

use crate::drain::{
    fact::{Hc, Serving, Timed},
    intervals::Intervals,
    record::Summary,
};

/// One message. What is not known is `null`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// The first one.
    Hello {
        node: Option<String>,
        version: String,
        /// The daemon's clock, RFC 3339.
        now: String,
    },
    /// How a pod is: when a stream begins to show it, and from then on when something of it changed, at most ten times a
    /// second.
    Pod(Box<PodStatus>),
    /// Something happened.
    Fact {
        namespace: String,
        pod: String,
        uid: String,
        #[serde(flatten)]
        fact: Timed,
    },
    /// A drain is over.
    Verdict(Box<Summary>),
    /// The reader was slow: so many messages were left out here.
    Lost { messages: u64 },
}

/// How a pod is at an instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodStatus {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    pub node: Option<String>,
    /// RFC 3339, as all stamps.
    pub now: String,
    /// Whether its source names it no longer.
    pub gone: bool,
    /// `null` for a pod without a health sidecar that is read.
    pub hc: Option<HcStatus>,
    /// `null` while nothing in the kernel led to the pod's sockets.
    pub connections: Option<Connections>,
    /// Requests in flight at the proxy, as told last.
    pub downstream: Option<u64>,
    pub upstream: Option<u64>,
    /// What the LB says, where it is read.
    pub lb: Option<Serving>,
    /// Since the pod is watched.
    pub cuts: u64,
    pub rsts_sent: u64,
    pub rsts_received: u64,
    /// When its drain began, if it drains.
    pub drain_began: Option<String>,
    /// Of its drain, as far as they are known.
    pub intervals: Intervals,
}

/// The health sidecar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HcStatus {
    pub state: Option<Hc>,
    pub since: Option<String>,
    /// What it answers the LB: 200 or 503.
    pub lb_told: Option<u16>,
}

/// Open connections: established, and those that have begun to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    pub data: Open,
    pub health: Open,
    pub admin: Open,
    pub outbound: Open,
    pub loopback: Open,
}

/// Of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    pub active: u64,
    pub closing: u64,
}
