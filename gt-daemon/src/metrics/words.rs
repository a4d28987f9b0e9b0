//! The values of labels, in one place: metrics, logs and records use the same words.

use gt_common::{
    connection::{Evidence, HcState, How, Lane},
    counters::{RstReceived, RstSent},
};

/// Why an RST was sent.
#[must_use]
pub fn sent_reason(why: RstSent) -> &'static str {
    match why {
        RstSent::Active => "active",
        RstSent::Reply => "reply",
        RstSent::TimeWait => "time_wait",
        RstSent::NoSocket => "no_socket",
    }
}

/// In which situation an RST was received.
#[must_use]
pub fn received_reason(how: RstReceived) -> &'static str {
    match how {
        RstReceived::Reset => "reset",
        RstReceived::Refused => "refused",
    }
}

/// Role of a connection, and class of its port.
#[must_use]
pub fn lane(lane: Lane) -> (&'static str, &'static str) {
    match lane {
        Lane::Data => ("inbound", "data"),
        Lane::Health => ("inbound", "health"),
        Lane::Admin => ("inbound", "admin"),
        Lane::Outbound => ("outbound", "none"),
        Lane::Loopback => ("loopback", "none"),
        Lane::Unknown => ("unknown", "unknown"),
    }
}

/// How a connection began to end, by the number of a [`How`].
#[must_use]
pub fn how(how: u8) -> &'static str {
    match how {
        how if how == How::FinReceived as u8 => "fin_received",
        how if how == How::FinSent as u8 => "fin_sent",
        how if how == How::RstReceived as u8 => "rst_received",
        how if how == How::RstSent as u8 => "rst_sent",
        how if how == How::Timeout as u8 => "timeout",
        _ => "unknown",
    }
}

/// What proves a cut, by the number of an [`Evidence`].
#[must_use]
pub fn evidence(evidence: u8) -> &'static str {
    match evidence {
        evidence if evidence == Evidence::Socket as u8 => "socket",
        evidence if evidence == Evidence::Possible as u8 => "possible",
        _ => "none",
    }
}

/// State of the hc, by the number of an [`HcState`].
#[must_use]
pub fn hc(hc: u8) -> &'static str {
    match hc {
        hc if hc == HcState::Open as u8 => "OPEN",
        hc if hc == HcState::Draining as u8 => "DRAINING",
        hc if hc == HcState::Closing as u8 => "CLOSING",
        hc if hc == HcState::Closed as u8 => "CLOSED",
        hc if hc == HcState::Fault as u8 => "FAULT",
        _ => "unknown",
    }
}
