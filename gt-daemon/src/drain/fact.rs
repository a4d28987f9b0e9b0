//! What happened during a drain: one line of a timeline each.

use gt_common::connection::HcState;
use jiff::{Timestamp, fmt::temporal::DateTimePrinter};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use crate::lb::word::Serving;
use crate::{
    hc::states::States,
    lb::follow::{Said, What},
};

/// Something and when it happened. The order is that of time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Timed {
    /// UTC, microseconds since 1970; in JSON an RFC 3339 stamp.
    #[serde(with = "stamp")]
    pub ts: i64,
    #[serde(flatten)]
    pub fact: Fact,
}

/// What happened. Absent, unknown and zero are three things: what is not known is `null`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Fact {
    /// The health sidecar changed its state; `None` for one that is not known.
    HcState {
        from: Option<Hc>,
        to: Option<Hc>,
        /// What it answers the LB from then on, 200 or 503: with several states possible this may be known all the same.
        lb_told: Option<u16>,
    },
    /// The LB's word on the pod, when it changed.
    LbStatus {
        /// What tells the backend's server apart where several are read: `LB backend/server`.
        server: String,
        /// The word itself, as `UP 1/2`; `null` where nobody could ask.
        status: Option<String>,
        /// What it means for the pod; `null` where it cannot be told.
        serving: Option<Serving>,
    },
    /// The LB took the pod for down.
    HaproxyBackendDown {
        server: String,
        /// The last instant at which it was seen to serve; the first at which it was not is the stamp. `null` where the
        /// instant is the LB's own.
        #[serde(with = "stamp::maybe")]
        last_up: Option<i64>,
        /// Whether this is arithmetic (interval x fall after the first 503), and nobody saw it.
        predicted: bool,
    },
    /// Somebody asked for the pod's deletion.
    PodDeleted {
        /// How long its processes may take to end, in seconds.
        grace_seconds: i64,
    },
    /// Envoy began to drain.
    EnvoyDrainListeners,
    /// Requests in flight at the proxy, when their number changed.
    EnvoyActiveCount { downstream: Option<u64>, upstream: Option<u64> },
    /// Connections of users, when their number changed.
    Connections { active: u64, closing: u64 },
    /// A connection of a user began to end, or a stream of one did.
    TcpTeardown(End),
    /// The first RST of a connection of a user that had begun to end.
    TcpRst { connection: Option<u64>, direction: Way, in_flight: bool },
    /// The source of pods names the pod no longer: noticed at this instant, up to half a second after.
    PodGone,
    /// Its last connection of a user is closed, and the pod is gone.
    Ended,
    /// Something was not seen.
    Gap {
        source: Source,
        /// How long, in microseconds, up to the stamp; 0 for an instant.
        length_us: i64,
        why: String,
    },
}

/// States of the sidecar, as the records name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Hc {
    Open,
    Draining,
    Closing,
    Closed,
    Fault,
}

impl Fact {
    /// A change from one set of possible states to another.
    #[must_use]
    pub fn hc_change(from: States, to: States) -> Self {
        let told = |is_up| if is_up { 200 } else { 503 };
        let lb_told = to.shown_up().map(told);
        Self::HcState { from: Hc::of(from.state()), to: Hc::of(to.state()), lb_told }
    }

    /// What an LB said.
    #[must_use]
    pub fn of_lb(said: Said) -> Self {
        let Said { server, what, .. } = said;
        match what {
            What::Status { status, serving } => Self::LbStatus { server, status, serving },
            What::Down { last_up } => Self::HaproxyBackendDown { server, last_up, predicted: false },
        }
    }

    /// Whether this is a sign that a drain goes on: hc has left OPEN, the pod's deletion was asked for, or it is gone.
    #[must_use]
    pub fn is_sign(&self) -> bool {
        match self {
            Self::HcState { to, lb_told, .. } => to.is_some_and(|to| to != Hc::Open) || *lb_told == Some(503),
            Self::PodDeleted { .. } | Self::PodGone => true,
            _ => false,
        }
    }

    /// Whether hc is back at OPEN; with the two codes alone that is 200.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(
            self,
            Self::HcState { to: Some(Hc::Open), .. } | Self::HcState { to: None, lb_told: Some(200), .. }
        )
    }

    /// Whether it is a detail, without which nothing is judged better than it was.
    #[must_use]
    pub fn is_detail(&self) -> bool {
        match self {
            Self::TcpTeardown(end) => end.evidence.is_none() && end.sure,
            Self::Connections { .. } | Self::EnvoyActiveCount { .. } => true,
            _ => false,
        }
    }
}

impl Hc {
    /// `None` for an unknown one.
    #[must_use]
    pub fn of(state: HcState) -> Option<Self> {
        match state {
            HcState::Unknown => None,
            HcState::Open => Some(Self::Open),
            HcState::Draining => Some(Self::Draining),
            HcState::Closing => Some(Self::Closing),
            HcState::Closed => Some(Self::Closed),
            HcState::Fault => Some(Self::Fault),
        }
    }

    /// The word in records, which every view has too.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::Draining => "DRAINING",
            Self::Closing => "CLOSING",
            Self::Closed => "CLOSED",
            Self::Fault => "FAULT",
        }
    }
}

/// Where an RST went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    Sent,
    Received,
}

impl Way {
    /// The word in records, which every view has too.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Received => "received",
        }
    }
}

/// What was not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Kernel,
    Hc,
    Envoy,
    Pods,
    Lb,
    Client,
    Record,
}

/// The end of a connection or a stream. The words are those of the metrics.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct End {
    /// Tells connections of one record apart; `None` where only the proxy tells.
    pub connection: Option<u64>,
    pub how: String,
    /// What proves that a request was cut; `None` for no cut.
    pub evidence: Option<String>,
    pub cause: String,
    /// Whether it is certain.
    pub sure: bool,
    /// Connections or streams; more than one only where only the proxy tells.
    pub count: u64,
    pub phase: Option<String>,
    pub protocol: Option<String>,
    pub remote: Option<String>,
}

impl End {
    /// A certain one, of which nothing else is known.
    #[must_use]
    pub fn new(how: &str, evidence: Option<&str>, cause: &str) -> Self {
        Self {
            connection: None,
            how: how.to_owned(),
            evidence: evidence.map(str::to_owned),
            cause: cause.to_owned(),
            sure: true,
            count: 1,
            phase: None,
            protocol: None,
            remote: None,
        }
    }

    /// Whether a request was cut for certain.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.evidence.is_some() && self.sure
    }

    /// Whether a request may have been cut.
    #[must_use]
    pub fn may_be_cut(&self) -> bool {
        !self.sure
    }

    /// Whether the client ended it, while the LB was told 200.
    #[must_use]
    pub fn is_clients(&self) -> bool {
        self.cause == "client_abort"
    }
}

/// An instant as its stamp: UTC with microseconds.
#[must_use]
pub fn stamp(us: i64) -> String {
    const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(6));

    let at = Timestamp::from_microsecond(us).unwrap_or(if us < 0 { Timestamp::MIN } else { Timestamp::MAX });
    PRINTER.timestamp_to_string(&at)
}

/// Stamps in JSON.
mod stamp {
    use super::{Deserialize as _, Deserializer, Serializer, Timestamp, de};

    pub(super) fn serialize<S: Serializer>(us: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::stamp(*us))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        let text = String::deserialize(deserializer)?;
        let at: Timestamp = text.parse().map_err(de::Error::custom)?;
        Ok(at.as_microsecond())
    }

    /// The same where there may be none.
    pub(super) mod maybe {
        use super::super::{Deserialize, Deserializer, Serialize as _, Serializer, Timestamp, de, stamp};

        pub(in super::super) fn serialize<S: Serializer>(
            us: &Option<i64>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            us.map(stamp).serialize(serializer)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<i64>, D::Error> {
            let text = Option::<String>::deserialize(deserializer)?;
            let at = text.map(|text| text.parse::<Timestamp>()).transpose().map_err(de::Error::custom)?;
            Ok(at.map(Timestamp::as_microsecond))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises each kind of line, so that what is written can be read again, and looks as the walkthrough's does.
    #[test]
    fn lines() {
        let end = End {
            connection: Some(7),
            how: "fin_received".to_owned(),
            evidence: Some("l7".to_owned()),
            cause: "lb_flush".to_owned(),
            sure: true,
            count: 1,
            phase: Some("awaiting".to_owned()),
            protocol: Some("http1".to_owned()),
            remote: None,
        };
        let facts = [
            Fact::hc_change(States::only(HcState::Open), States::only(HcState::Draining)),
            Fact::hc_change(States::ANY, States::ANY),
            Fact::LbStatus {
                server: "igw/node-1".to_owned(),
                status: Some("UP 1/2".to_owned()),
                serving: Some(Serving::Up),
            },
            Fact::HaproxyBackendDown {
                server: "igw/node-1".to_owned(),
                last_up: Some(1_780_211_553_000_001),
                predicted: false,
            },
            Fact::HaproxyBackendDown { server: "igw".to_owned(), last_up: None, predicted: true },
            Fact::PodDeleted { grace_seconds: 30 },
            Fact::EnvoyDrainListeners,
            Fact::EnvoyActiveCount { downstream: Some(0), upstream: None },
            Fact::Connections { active: 1, closing: 2 },
            Fact::TcpTeardown(end),
            Fact::TcpRst { connection: Some(7), direction: Way::Received, in_flight: true },
            Fact::PodGone,
            Fact::Ended,
            Fact::Gap { source: Source::Kernel, length_us: 0, why: "the ring was full".to_owned() },
        ];
        let mut lines = Vec::new();
        for fact in facts {
            let timed = Timed { ts: 1_780_211_554_000_001, fact };
            let line = serde_json::to_string(&timed).unwrap();
            assert_eq!(serde_json::from_str::<Timed>(&line).unwrap(), timed, "{line}");
            lines.push(line);
        }
        assert_eq!(
            lines[0],
            r#"{"ts":"2026-05-31T07:12:34.000001Z","event":"hc_state","from":"OPEN","to":"DRAINING","lb_told":200}"#
        );
        assert_eq!(
            lines[3],
            r#"{"ts":"2026-05-31T07:12:34.000001Z","event":"haproxy_backend_down","server":"igw/node-1","last_up":"2026-05-31T07:12:33.000001Z","predicted":false}"#
        );
        assert_eq!(
            lines[7],
            r#"{"ts":"2026-05-31T07:12:34.000001Z","event":"envoy_active_count","downstream":0,"upstream":null}"#
        );
    }

    /// Exercises what two codes leave open, so that a 503 is a sign although the state is not known, and a 200 is none.
    #[test]
    fn codes_alone() {
        let ended = Fact::hc_change(States::UP, States::ENDED);
        assert_eq!(ended, Fact::HcState { from: None, to: None, lb_told: Some(503) });
        assert!(ended.is_sign() && !ended.is_open());
        let back = Fact::hc_change(States::ENDED, States::UP);
        assert!(back.is_open() && !back.is_sign());
        let restarted = Fact::hc_change(States::ENDED, States::ANY);
        assert!(!restarted.is_open() && !restarted.is_sign());
    }

    /// Exercises instants that no calendar has, so that nothing panics.
    #[test]
    fn far_instants() {
        assert_eq!(stamp(0), "1970-01-01T00:00:00.000000Z");
        assert!(stamp(i64::MAX).starts_with("9999-12-3") && stamp(i64::MIN).starts_with('-'));
    }
}
