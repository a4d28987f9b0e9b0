//! Facts in words, for the table and the tips of marks.

use super::text::{clock, length, plain};
use crate::drain::{
    blame::Blamed,
    fact::{End, Fact, Hc, Serving, Source},
};

/// The fact's name in `timeline.jsonl`.
#[must_use]
pub fn name(fact: &Fact) -> &'static str {
    match fact {
        Fact::HcState { .. } => "hc_state",
        Fact::LbStatus { .. } => "lb_status",
        Fact::HaproxyBackendDown { .. } => "haproxy_backend_down",
        Fact::PodDeleted { .. } => "pod_deleted",
        Fact::EnvoyDrainListeners => "envoy_drain_listeners",
        Fact::EnvoyActiveCount { .. } => "envoy_active_count",
        Fact::Connections { .. } => "connections",
        Fact::TcpTeardown(_) => "tcp_teardown",
        Fact::TcpRst { .. } => "tcp_rst",
        Fact::PodGone => "pod_gone",
        Fact::Ended => "ended",
        Fact::Gap { .. } => "gap",
    }
}

/// What it says. Names in it are as others wrote them, made harmless; they are still to be escaped.
#[must_use]
pub fn fact(fact: &Fact) -> String {
    match fact {
        Fact::HcState { from, to, lb_told } => {
            let told = lb_told.map_or("what the LB is told is not known".to_owned(), |code| {
                format!("the LB is told {code}")
            });
            format!("health sidecar {} → {}; {told}", hc(*from), hc(*to))
        }
        Fact::LbStatus { server, status, serving } => {
            let status = status
                .as_deref()
                .map_or("could not be asked".to_owned(), |status| format!("says “{}”", plain(status)));
            let serving = match serving {
                Some(Serving::Up) => "it sends requests",
                Some(Serving::NoNew) => "it sends no new connections",
                Some(Serving::Down) => "it sends nothing",
                None => "whether it sends requests is not known",
            };
            format!("load balancer {} {status}: {serving}", plain(server))
        }
        Fact::HaproxyBackendDown { server, last_up, predicted } => {
            let since = last_up.map(|up| format!(", seen up last at {}", clock(up))).unwrap_or_default();
            let predicted = if *predicted { " (predicted: nobody saw it)" } else { "" };
            format!("load balancer {} takes the pod for down{since}{predicted}", plain(server))
        }
        Fact::PodDeleted { grace_seconds } => format!("deletion asked for, with {grace_seconds} s of grace"),
        Fact::EnvoyDrainListeners => "the proxy began to drain".to_owned(),
        Fact::EnvoyActiveCount { downstream, upstream } => {
            format!("requests in flight: {} downstream, {} upstream", number(*downstream), number(*upstream))
        }
        Fact::Connections { active, closing } => {
            format!("connections of users: {active} active, {closing} closing")
        }
        Fact::TcpTeardown(end) => self::end(end),
        Fact::TcpRst { connection, direction, in_flight } => {
            let way = direction.word();
            let flight = if *in_flight { ", a request was in flight" } else { ", nothing was in flight" };
            format!("first RST {way}{flight}{}", of(*connection))
        }
        Fact::PodGone => "the pod is named no longer".to_owned(),
        Fact::Ended => "the last connection of a user is closed, and the pod is gone".to_owned(),
        Fact::Gap { source, length_us, why } => {
            let during = if *length_us > 0 { format!(" for {}", length(*length_us)) } else { String::new() };
            format!("not seen{during}, {}: {}", self::source(*source), plain(why))
        }
    }
}

/// How a connection or a stream ended.
#[must_use]
pub fn end(end: &End) -> String {
    let what = match (&end.evidence, end.sure) {
        (Some(evidence), true) => format!("cut, evidence {}", plain(evidence)),
        (Some(evidence), false) => format!("perhaps cut, evidence {}", plain(evidence)),
        (None, true) => "nothing in flight".to_owned(),
        (None, false) => "whether it was cut is not known".to_owned(),
    };
    let times = if end.count == 1 { String::new() } else { format!("{} × ", end.count) };
    let mut words = format!("{times}{}: {what}, cause {}", plain(&end.how), plain(&end.cause));
    for (name, value) in [("phase", &end.phase), ("protocol", &end.protocol), ("peer", &end.remote)] {
        if let Some(value) = value {
            words.push_str(&format!(", {name} {}", plain(value)));
        }
    }
    words + &of(end.connection)
}

/// The same, with whom the verdict blames where that is not the fact's own word.
#[must_use]
pub(super) fn blamed(blamed: &Blamed<'_>) -> String {
    let words = end(blamed.end);
    if blamed.in_doubt {
        return format!("{words}; the load balancer's doing if it was DOWN, which nobody saw");
    }
    if blamed.cause == blamed.end.cause {
        words
    } else {
        format!("{words}; by the record as a whole {}", plain(blamed.cause))
    }
}

/// What was not seen.
#[must_use]
pub fn source(source: Source) -> &'static str {
    match source {
        Source::Kernel => "ends of connections",
        Source::Hc => "the health sidecar",
        Source::Envoy => "the proxy's counts",
        Source::Pods => "the pod",
        Source::Lb => "the load balancer",
        Source::Client => "why clients' requests failed",
        Source::Record => "facts that found no place in the record",
    }
}

fn of(connection: Option<u64>) -> String {
    connection.map(|connection| format!(", connection {connection}")).unwrap_or_default()
}

fn number(number: Option<u64>) -> String {
    number.map_or("unknown".to_owned(), |number| number.to_string())
}

fn hc(hc: Option<Hc>) -> &'static str {
    hc.map_or("unknown", Hc::word)
}
