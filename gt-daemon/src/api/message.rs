//! What a stream is made of: one message an event of `text/event-stream`, or one a line.

use serde::{Deserialize, Serialize};

pub use crate::drain::news::Word;
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
        word: Word,
        #[serde(flatten)]
        fact: Timed,
    },
    /// A drain is over.
    Verdict(Box<Summary>),
    /// The reader was slow: so many messages were left out here.
    Lost { messages: u64 },
    /// The client's own: from here on the daemon could not be heard. A `hello` follows when it can be again.
    Gap {
        /// The daemon's node, where it has told it.
        node: Option<String>,
        why: String,
        /// The client's clock, RFC 3339.
        now: String,
    },
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::fact::Fact;

    /// Exercises each kind of message as a line, so that what a daemon writes a client reads, and a reader of JSON finds its
    /// words.
    #[test]
    fn lines() {
        let fact = Timed { ts: 1_780_211_554_000_001, fact: Fact::PodDeleted { grace_seconds: 30 } };
        let messages = [
            Message::Hello { node: None, version: "0.1.0".to_owned(), now: "now".to_owned() },
            Message::Pod(Box::default()),
            Message::Fact {
                namespace: "edge".to_owned(),
                pod: "igw".to_owned(),
                uid: "u".to_owned(),
                word: Word::Told,
                fact,
            },
            Message::Lost { messages: 3 },
            Message::Gap { node: Some("n1".to_owned()), why: "it ended".to_owned(), now: "now".to_owned() },
        ];
        let lines = messages.each_ref().map(|message| serde_json::to_string(message).unwrap());
        for (message, line) in messages.iter().zip(&lines) {
            assert_eq!(serde_json::from_str::<Message>(line).unwrap(), *message, "{line}");
        }
        assert_eq!(
            lines[2],
            r#"{"type":"fact","namespace":"edge","pod":"igw","uid":"u","word":"told","ts":"2026-05-31T07:12:34.000001Z","event":"pod_deleted","grace_seconds":30}"#
        );
        assert!(lines[1].contains(r#""hc":null,"connections":null,"downstream":null"#), "{}", lines[1]);
    }
}
