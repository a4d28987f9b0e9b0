//! A round as a table, a line a witness; and as JSON.

use std::{collections::BTreeMap, fmt::Display};

use serde_json::{Value, json};

use super::{
    plan::Play,
    record::{Gt, Pod, Record, rsts},
    round::Ended,
};
use crate::stage::{counts::Kind, wire::End};

/// The table that a round ends with.
pub(super) fn table(ended: &Ended) -> String {
    let Ended { record, disagreements } = ended;
    let Record { client, haproxy, .. } = record;
    let mut text = String::new();
    let mut row = |name: &str, words: &str| {
        for part in [&format!("  {name:<10}"), words, "\n"] {
            text.push_str(part);
        }
    };
    row(
        "client",
        &format!(
            "asked {}, failed {}: 5xx {}, without a whole answer {}",
            client.asked(),
            client.failed(),
            client.refused(),
            client.failed().saturating_sub(client.refused()),
        ),
    );
    for answer in &client.answers {
        let status = answer.seen.status.map_or_else(|| "no status".to_owned(), |status| status.to_string());
        let chunks = if answer.path.contains("/stream") {
            format!(", {} chunks", answer.seen.lines)
        } else {
            String::new()
        };
        let whole = if answer.seen.whole { "whole" } else { "broken off" };
        row("", &format!("{}: {status}, {whole}{chunks}, {:.2} s", answer.path, answer.took.as_secs_f64()));
    }
    row(
        "HAProxy",
        &format!(
            "sessions by their end {}; cut {}; without a word {}; retries {}, redispatches {}; DOWN {}",
            list(&haproxy.sessions),
            haproxy.cut.values().sum::<u64>(),
            record.untold(),
            haproxy.retries,
            haproxy.redispatches,
            haproxy.downs
        ),
    );
    row("tcpdump", &format!("at the pods {}", packets(&record.at_pods())));
    let told = |packets| list(&rsts(packets));
    row(
        "",
        &format!(
            "RSTs at the workers {}; at the load balancer {}; of clients' connections {}",
            told(&record.at_workers),
            told(&record.at_lb),
            told(&record.at_client)
        ),
    );
    for pod in &record.pods {
        let Pod { name, requests, envoy_cut, killed, transitions, gt, .. } = pod;
        row(if pod.gone() { "pod" } else { "its heir" }, name);
        let of_kill =
            if *killed > 0 { format!(" (in flight when it was killed: {killed})") } else { String::new() };
        row("  Envoy", &format!("requests {requests}, cut {envoy_cut}{of_kill}"));
        row("  hc", &if transitions.is_empty() { "no transition".to_owned() } else { transitions.join(" ") });
        row("  tcpdump", &format!("RSTs {}", list(&resets(pod))));
        row("  gt", &format!("RSTs {}", kinds(&gt.rsts)));
        row("", &format!("cuts {}; with an RST {}", kinds(&gt.cuts), kinds(&gt.cut_rsts)));
        row("  verdict", gt.verdict());
    }
    row("judges", if disagreements.is_empty() { "all agree" } else { "DISAGREE" });
    for disagreement in disagreements {
        row("", &format!("- {disagreement}"));
    }
    text
}

/// The lines behind it, for a disagreement.
pub(super) fn evidence(record: &Record) -> String {
    let mut text = String::from("HAProxy's log:\n");
    let mut line = |line: &str| {
        for part in ["    ", line, "\n"] {
            text.push_str(part);
        }
    };
    record.haproxy.lines.iter().for_each(|words| line(words));
    for pod in &record.pods {
        line(&format!("on the wire of pod {}:", pod.name));
        pod.connections.values().flat_map(|one| &one.lines).for_each(|words| line(words));
    }
    text
}

/// The same as a value.
pub(super) fn value(play: &Play, round: usize, ended: &Ended) -> Value {
    let record = &ended.record;
    json!({
        "play": play.name(),
        "round": round,
        "agree": ended.disagreements.is_empty(),
        "disagreements": ended.disagreements,
        "client": {
            "asked": record.client.asked(),
            "failed": record.client.failed(),
            "status_5xx": record.client.refused(),
            "long": record.client.answers.iter().map(|answer| json!({
                "path": answer.path,
                "status": answer.seen.status,
                "whole": answer.seen.whole,
                "lines": answer.seen.lines,
                "seconds": answer.took.as_secs_f64(),
            })).collect::<Vec<_>>(),
        },
        "haproxy": {
            "sessions": record.haproxy.sessions,
            "cut": record.haproxy.cut,
            "without_a_word": record.untold(),
            "retries": record.haproxy.retries,
            "redispatches": record.haproxy.redispatches,
            "down": record.haproxy.downs,
        },
        "rsts": {
            "pods": rsts(&record.at_pods()),
            "workers": rsts(&record.at_workers),
            "lb": rsts(&record.at_lb),
            "clients": rsts(&record.at_client),
        },
        "pods": record.pods.iter().map(pod).collect::<Vec<_>>(),
    })
}

fn pod(pod: &Pod) -> Value {
    let Gt { cuts, cut_rsts, rsts: all, .. } = &pod.gt;
    let counted = |counts: &[(Kind, f64)]| {
        counts.iter().map(|(kind, count)| (kind.to_string(), json!(count))).collect::<serde_json::Map<_, _>>()
    };
    json!({
        "name": pod.name,
        "server": pod.server,
        "gone": pod.gone(),
        "deleted": pod.deletion.map(|deletion| json!({"asked": deletion.asked, "grace": deletion.grace})),
        "requests": pod.requests,
        "envoy_cut": pod.envoy_cut,
        "killed": pod.killed,
        "rsts": resets(pod),
        "transitions": pod.transitions,
        "gt": {
            "cuts": counted(cuts),
            "rsts_in_flight": counted(cut_rsts),
            "rsts": counted(all),
            "drain_started": pod.gt.drain_started,
            "verdict": pod.gt.verdicts.as_ref().map(|_| pod.gt.verdict()),
        },
    })
}

/// How many RSTs of each class met what.
fn resets(pod: &Pod) -> BTreeMap<String, usize> {
    pod.resets.iter().map(|((class, kind), lines)| (format!("{class} {kind}"), lines.len())).collect()
}

fn kinds(counts: &[(Kind, f64)]) -> String {
    let told: Vec<_> = counts.iter().map(|(kind, count)| format!("{count} ({kind})")).collect();
    if told.is_empty() { "0".to_owned() } else { told.join(" + ") }
}

fn list<N: Display, C: Display>(counts: &BTreeMap<N, C>) -> String {
    let told: Vec<_> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    if told.is_empty() { "none".to_owned() } else { told.join(", ") }
}

fn packets(packets: &BTreeMap<End, u64>) -> String {
    list(&packets.iter().map(|(end, count)| (end.how(), *count)).collect())
}
