//! The figures as a table, as JSON and as a section of docs/benchmarks.md.

use std::{fmt::Write as _, time::SystemTime};

use serde_json::{Value, json};

use super::{
    figures::{Asker, LEAST_TIMES, Question, Results, Row, Share, Spread},
    gateway::CLUSTERS,
    reader::Pace,
};
use crate::{bench::machine::Machine, stage::clock};

fn who(row: &Row) -> &'static str {
    match row.asker {
        Asker::Reader => "gt's look",
        Asker::Exec => "`runc exec` of curl",
        Asker::Bare => "curl alone",
    }
}

fn what(row: &Row) -> &'static str {
    match row.question {
        Question::Gauges => "gt's question for gauges",
        Question::Both => "gt's for gauges and counters",
        Question::Usual => "the usual poller's question",
    }
}

fn pace(share: &Share) -> &'static str {
    match share.pace {
        Pace::Draining => "a pod drains",
        Pace::Open => "OPEN",
    }
}

fn micros((median, least, most): Spread) -> String {
    format!("{median:.0} ({least:.0} to {most:.0})")
}

fn times((median, least, most): Spread) -> String {
    format!("{median:.1} ({least:.1} to {most:.1})")
}

/// For the terminal.
pub(super) fn table(all: &[Results]) -> String {
    let mut text = String::new();
    for results in all {
        // A string takes what it gets: nothing here can fail.
        let _never_fails = writeln!(
            text,
            "{CLUSTERS} clusters, {}: CPU time in us for one answer, and how many times that of a look",
            results.clusters()
        );
        for row in results.rows() {
            let _never_fails = writeln!(
                text,
                "{:22} {:30} asking {:>24}  Envoy {:>24}  asking x {:>6.1}  with Envoy x {:>5.1}",
                who(&row),
                what(&row),
                micros(row.own),
                micros(row.envoy),
                row.times.0,
                row.times_with_envoy.0,
            );
        }
        for share in &results.shares {
            let _never_fails = writeln!(
                text,
                "{:12} {:3} looks, of a core: reader {:.3} %, Envoy {:.3} %, together {:.3} %, goal {} %",
                share.pace.name(),
                share.looks,
                share.reader * 100.0,
                share.envoy * 100.0,
                share.sum() * 100.0,
                share.goal() * 100.0,
            );
        }
    }
    let missed: Vec<_> = all.iter().flat_map(Results::missed).collect();
    if missed.is_empty() {
        text.push_str("all goals reached\n");
    } else {
        let _never_fails = writeln!(text, "goals missed:\n- {}", missed.join("\n- "));
    }
    text
}

/// For machines.
pub(super) fn json(all: &[Results], machine: &Machine) -> String {
    let spread = |(median, least, most): Spread| json!({"median": median, "least": least, "most": most});
    let row = |row: Row| {
        json!({
            "who": who(&row), "what": what(&row),
            "asking_us": spread(row.own), "envoy_us": spread(row.envoy),
            "times": spread(row.times), "times_with_envoy": spread(row.times_with_envoy),
            "goal": row.is_judged().then_some(LEAST_TIMES),
            "reached": row.is_judged().then_some(!row.is_missed()),
        })
    };
    let share = |share: &Share| {
        json!({
            "pace": share.pace.name(), "looks": share.looks, "reader": share.reader, "envoy": share.envoy,
            "goal": share.goal(), "reached": share.sum() < share.goal(),
        })
    };
    let gateways: Vec<Value> = all
        .iter()
        .map(|results| {
            json!({
                "clusters": CLUSTERS, "used": results.used, "rounds": results.rounds.len(),
                "answers": results.rows().into_iter().map(row).collect::<Vec<_>>(),
                "paces": results.shares.iter().map(share).collect::<Vec<_>>(),
            })
        })
        .collect();
    let value = json!({
        "time": clock::utc(SystemTime::now()),
        "machine": machine.json(),
        "gateways": gateways,
        "missed": all.iter().flat_map(Results::missed).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

/// For readers.
pub(super) fn markdown(all: &[Results]) -> String {
    let (mut answers, mut shares) = (String::new(), String::new());
    for results in all {
        for row in results.rows() {
            let _never_fails = writeln!(
                answers,
                "| {} | {} | {} | {} | {} | {}{} | {} | {} |",
                results.clusters(),
                who(&row),
                what(&row),
                micros(row.own),
                micros(row.envoy),
                times(row.times),
                if row.is_missed() { " **missed**" } else { "" },
                if row.is_judged() { LEAST_TIMES.to_string() } else { "-".to_owned() },
                times(row.times_with_envoy),
            );
        }
        for share in &results.shares {
            let _never_fails = writeln!(
                shares,
                "| {} | {} | {} | {:.3} % | {:.3} % | {:.3} %{} | {} % |",
                results.clusters(),
                pace(share),
                share.looks,
                share.reader * 100.0,
                share.envoy * 100.0,
                share.sum() * 100.0,
                if share.sum() >= share.goal() { " **missed**" } else { "" },
                share.goal() * 100.0,
            );
        }
    }
    let rounds = all.iter().map(|results| results.rounds.len()).min().unwrap_or_default();
    format!(
        "A real Envoy with {CLUSTERS} clusters, once before any of them had a request and once after each had one. All is CPU
time, user's and system's.

### One answer

In microseconds; the median of {rounds} rounds, in which all ways to ask take turns, and the least and the most of them
in brackets. *Asking* is whoever asks, *Envoy* its main thread, which answers. *Times* compares the asking with that of
gt's look in the same round, *times with Envoy* has Envoy's part on both sides.

| Clusters | Who | Asks | Asking | Envoy | Times | Goal: at least | Times with Envoy |
|---|---|---|---|---|---|---|---|
{answers}
*gt's look* is the daemon's reader on a runtime as the daemon's, at the pace of a drain, and compared with what asks for
the same or less. Where Envoy's answers take so long that looks come once a second, each asks for counters too.
*`runc exec` of curl* is what a node does for a `kubectl exec`: runc, its helpers and curl, in a container that runs.
kubectl, the API server, the kubelet, containerd and its shim are not in it, so the whole costs more. *curl alone* is
started in the network namespace, without a container, which needs root on the node. *The usual poller's question* is
`/stats?filter=downstream_rq_active|upstream_rq_active`.

Envoy's part of an answer depends on the question, not on who asks, so the goal is for the asking. The last column is
the node's whole cost: where Envoy's part is most of it, a read is fewer times cheaper.

### Shares of one core

What reading one pod takes over time, at the daemon's own paces. Envoy's part of a look is what its main thread used
from just before the question to just after the answer; the share is the median of it, for looks at gauges and for
looks at counters too, times how many of each there were.

| Clusters | While | Looks | Reader | Envoy | Together | Goal: less than |
|---|---|---|---|---|---|---|
{shares}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::reading::figures::{Cost, Round};

    /// Exercises goals that are missed, so that they are marked in each form.
    #[test]
    fn misses_are_marked() {
        let cost = |own, envoy| Cost { own, envoy };
        let round = Round(vec![
            (Asker::Reader, Question::Gauges, cost(100.0, 900.0)),
            (Asker::Exec, Question::Usual, cost(1_800.0, 9_000.0)),
            (Asker::Exec, Question::Gauges, cost(2_000.0, 900.0)),
        ]);
        let share = Share { pace: Pace::Open, looks: 4, reader: 0.0012, envoy: 0.001 };
        let results = [Results { used: false, rounds: vec![round], shares: vec![share] }];
        let text = markdown(&results);
        assert!(text.contains("| 18.0 (18.0 to 18.0) **missed** | 20 | 10.8 (10.8 to 10.8) |"), "{text}");
        assert!(text.contains("| 20.0 (20.0 to 20.0) | 20 | 2.9 (2.9 to 2.9) |"), "{text}");
        assert!(text.contains("| 1.0 (1.0 to 1.0) | - | 1.0 (1.0 to 1.0) |"), "{text}");
        assert!(text.contains("| 0.120 % | 0.100 % | 0.220 % **missed** | 0.2 % |"), "{text}");
        assert!(table(&results).contains("goals missed:\n- clusters none used: Exec for Usual costs 18.0"));
        let json: Value = serde_json::from_str(&json(&results, &Machine::default())).unwrap();
        assert_eq!(json["gateways"][0]["answers"][1]["reached"], false);
        assert_eq!(json["gateways"][0]["answers"][2]["reached"], true);
        assert!(json["gateways"][0]["answers"][0]["reached"].is_null());
        assert_eq!(json["missed"].as_array().map(Vec::len), Some(2));
    }
}
