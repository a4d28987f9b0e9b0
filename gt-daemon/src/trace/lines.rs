//! Messages in words, one a line. Pure.

use std::collections::BTreeSet;

use crate::{
    api::message::{Message, PodStatus, Word},
    drain::{
        fact::{End, Fact, Hc, Serving, Timed, stamp},
        intervals::Intervals,
        record::Summary,
    },
};

/// What was told already.
#[derive(Debug, Default)]
pub struct Lines {
    /// Pods whose beginning was told: from then on facts tell what changes.
    shown: BTreeSet<String>,
}

impl Lines {
    /// A message as a line: when, which pod, what. `None` for one that tells nothing that facts do not.
    pub fn line(&mut self, message: &Message) -> Option<String> {
        let (when, who, what) = match message {
            Message::Hello { node, version, now } => {
                let node = node.as_deref().unwrap_or("this node");
                (now.clone(), "-".to_owned(), format!("gt-daemon {version} on {node} is heard"))
            }
            Message::Pod(status) if self.shown.insert(status.uid.clone()) => {
                (status.now.clone(), who(&status.namespace, &status.pod), beginning(status))
            }
            Message::Pod(_) => return None,
            Message::Fact { namespace, pod, word, fact: Timed { ts, fact }, .. } => {
                (stamp(*ts), who(namespace, pod), what(fact, *word))
            }
            Message::Verdict(summary) => {
                let when = summary.ended.clone().or_else(|| summary.began.clone()).unwrap_or_default();
                (when, who(&summary.namespace, &summary.pod), verdict(summary))
            }
            Message::Lost { messages } => (
                "-".to_owned(),
                "-".to_owned(),
                format!("GAP: {messages} messages were lost, this reader was slow"),
            ),
            Message::Gap { node, why, now } => {
                let node = node.as_deref().unwrap_or("this node");
                (now.clone(), "-".to_owned(), format!("GAP: gt-daemon on {node} is not heard: {why}"))
            }
        };
        Some(format!("{when} {who} {what}"))
    }
}

fn who(namespace: &str, pod: &str) -> String {
    format!("{namespace}/{pod}")
}

fn beginning(status: &PodStatus) -> String {
    let mut parts = Vec::new();
    if let Some(hc) = &status.hc {
        let since = hc.since.as_deref().map(|since| format!(" since {since}")).unwrap_or_default();
        parts.push(format!("hc {}{since}", state(hc.state)));
    }
    if let Some(connections) = status.connections {
        parts.push(format!(
            "connections {} established, {} closing",
            connections.data.active, connections.data.closing
        ));
    }
    if let Some(downstream) = status.downstream {
        parts.push(format!("in flight {downstream}"));
    }
    parts.push(format!("cuts {}", status.cuts));
    if let Some(began) = &status.drain_began {
        parts.push(format!("drain began {began}"));
    }
    let gone = if status.gone { "is gone" } else { "is watched" };
    format!("{gone}: {}", parts.join(", "))
}

fn state(state: Option<Hc>) -> &'static str {
    state.map_or("unknown", Hc::word)
}

fn number(count: Option<u64>) -> String {
    count.map_or_else(|| "unknown".to_owned(), |count| count.to_string())
}

fn what(fact: &Fact, word: Word) -> String {
    let mut text = match fact {
        Fact::HcState { from, to, lb_told } => {
            let told = lb_told.map_or_else(|| "unknown".to_owned(), |code| code.to_string());
            format!("hc {} -> {}, tells the LB {told}", state(*from), state(*to))
        }
        Fact::LbStatus { server, status, serving } => {
            let serving = match serving {
                Some(Serving::Up) => "serves",
                Some(Serving::NoNew) => "gets nothing new",
                Some(Serving::Down) => "is down",
                None => "is not known to serve",
            };
            let status = status.as_deref().map(|status| format!(" ({status})")).unwrap_or_default();
            format!("LB {server}: {serving}{status}")
        }
        Fact::HaproxyBackendDown { server, last_up, predicted } => {
            let last_up = last_up.map(|us| format!(", last seen up {}", stamp(us))).unwrap_or_default();
            let predicted = if *predicted { ", predicted" } else { "" };
            format!("LB {server}: took it for down{last_up}{predicted}")
        }
        Fact::PodDeleted { grace_seconds } => format!("deletion asked for, {grace_seconds} s to end"),
        Fact::EnvoyDrainListeners => "Envoy drains".to_owned(),
        Fact::EnvoyActiveCount { downstream, upstream } => {
            format!("in flight {} downstream, {} upstream", number(*downstream), number(*upstream))
        }
        Fact::Connections { active, closing } => {
            format!("connections {active} established, {closing} closing")
        }
        Fact::TcpTeardown(end) => teardown(end, word),
        Fact::TcpRst { connection, direction, in_flight } => {
            let direction = direction.word();
            let whose =
                connection.map_or_else(|| ", no connection".to_owned(), |id| format!(", connection {id}"));
            let in_flight = if *in_flight { ", a request was in flight" } else { "" };
            format!("RST {direction}{whose}{in_flight}")
        }
        Fact::PodGone => "the pod is gone".to_owned(),
        Fact::Ended => "the drain has ended".to_owned(),
        Fact::Gap { source, length_us, why } => {
            let source = format!("{source:?}").to_lowercase();
            format!("GAP: {source}{}: {why}", length(*length_us))
        }
    };
    if word == Word::Better {
        text.push_str(" (better known than before)");
    }
    text
}

fn length(us: i64) -> String {
    if us == 0 { String::new() } else { format!(" for {}.{:03} s", us / 1_000_000, us % 1_000_000 / 1000) }
}

fn teardown(end: &End, word: Word) -> String {
    let End { how, evidence, cause, sure, count, phase, protocol, remote, connection } = end;
    let kind = match (word, evidence, sure) {
        (Word::Seen, ..) => "end, not judged yet",
        (_, Some(_), true) => "CUT",
        (_, Some(_), false) => "possible CUT",
        (_, None, true) => "end, nothing cut",
        (_, None, false) => "end, not known whether a request was cut",
    };
    let mut text = format!("{kind}: {how}");
    let mut add = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            text.push_str(&format!(" {name}={value}"));
        }
    };
    add("cause", Some(cause.as_str()).filter(|_| evidence.is_some() && word != Word::Seen));
    add("evidence", evidence.as_deref());
    add("phase", phase.as_deref());
    add("protocol", protocol.as_deref());
    add("count", Some(count.to_string().as_str()).filter(|_| *count > 1));
    add("remote", remote.as_deref());
    add("connection", connection.map(|id| id.to_string()).as_deref());
    text
}

fn verdict(summary: &Summary) -> String {
    let Intervals { drain_to_active_zero, active_zero_to_lb_down, lb_down_to_first_rst } = summary.intervals;
    let mut text = format!("VERDICT {}: {}", summary.verdict.word(), summary.reasons.join("; "));
    for (name, seconds) in [
        ("drain_to_active_zero", drain_to_active_zero),
        ("active_zero_to_lb_down", active_zero_to_lb_down),
        ("lb_down_to_first_rst", lb_down_to_first_rst),
    ] {
        if let Some(seconds) = seconds {
            text.push_str(&format!(" {name}={seconds:.3}s"));
        }
    }
    text
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
