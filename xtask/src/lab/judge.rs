//! In what the witnesses of a round disagree, with what should have happened and with one another. Pure.

use std::{collections::BTreeMap, fmt::Debug};

use super::{
    parity,
    plan::{Play, Which},
    record::{Pod, Record, rsts},
};
use crate::stage::{counts::by, wire};

/// What is asked for with a certain pod as its aim, by scenario.
pub(super) fn aimed(scenario: Which, milliseconds: u128) -> Vec<String> {
    let sleep = format!("/sleep?ms={milliseconds}");
    let stream = format!("/stream?every=50&ms={milliseconds}");
    match scenario {
        Which::S1 | Which::S2 | Which::Fault | Which::Killed | Which::All => vec![sleep],
        Which::S3 => vec![sleep, stream],
        Which::S4 => vec![stream.clone(), stream.clone(), stream],
    }
}

/// Everything that does not fit; empty when all agree.
pub(super) fn disagreements(play: &Play, record: &Record) -> Vec<String> {
    let mut found = Vec::new();
    outcome(play, record, &mut found);
    clients(record, &mut found);
    places(record, &mut found);
    for pod in &record.pods {
        let mut of_pod = Vec::new();
        counts(play, pod, record, &mut of_pod);
        verdict(play, pod, &mut of_pod);
        // By the API no deletion has a finer time than a second.
        let began = pod.deletion.map(|deletion| seconds(deletion.asked));
        differ("the beginning of its drain by gt", &pod.gt.drain_started, &began, &mut of_pod);
        found.extend(of_pod.into_iter().map(|what| format!("pod {}: {what}", pod.name)));
    }
    found
}

/// What the scenario is there to show.
fn outcome(play: &Play, record: &Record, found: &mut Vec<String>) {
    let count = record.client.answers.len();
    let whole = record.client.answers.iter().filter(|answer| answer.good()).count();
    let transitions: &[&str] = match play.scenario {
        Which::Fault => &["OPEN>DRAINING", "DRAINING>FAULT"],
        Which::Killed => &["OPEN>DRAINING"],
        _ => &["OPEN>DRAINING", "DRAINING>CLOSING", "CLOSING>CLOSED"],
    };
    differ("whole answers of the long requests", &whole, &(if play.is_cut() { 0 } else { count }), found);
    for answer in &record.client.answers {
        let status = if play.is_cut() && !answer.path.starts_with("/stream") { 502 } else { 200 };
        differ(&format!("the status of {}", answer.path), &answer.seen.status, &Some(status), found);
    }
    for pod in record.gone() {
        differ(
            &format!("pod {}: the sidecar's transitions", pod.name),
            &pod.transitions,
            &transitions.iter().map(|transition| (*transition).to_owned()).collect(),
            found,
        );
    }
}

/// The clients and HAProxy speak of the same requests.
fn clients(record: &Record, found: &mut Vec<String>) {
    let sessions: u64 = record.haproxy.sessions.values().sum();
    let told = sessions + record.untold().min(record.client.load.broken);
    differ("requests that HAProxy logged, and those sent", &told, &record.client.asked(), found);
    differ(
        "bad ends of requests that HAProxy logged, and those that clients saw",
        &(record.haproxy.bad + record.untold()),
        &record.client.failed(),
        found,
    );
}

/// No RST was lost or made between the pods and the load balancer.
fn places(record: &Record, found: &mut Vec<String>) {
    let pods = rsts(&record.at_pods());
    differ("RSTs at the load balancer, and at the pods", &rsts(&record.at_lb), &pods, found);
    differ("RSTs at the workers, and at the pods", &rsts(&record.at_workers), &pods, found);
}

/// gt counts what Envoy, HAProxy and tcpdump saw.
fn counts(play: &Play, pod: &Pod, record: &Record, found: &mut Vec<String>) {
    differ("gt's cuts, and Envoy's", &pod.gt.cut(), &float(pod.envoy_cut), found);
    let of = |cut: &BTreeMap<String, u64>| cut.get(&pod.server).copied().unwrap_or_default();
    let (all, short) = (of(&record.haproxy.cut), of(&record.haproxy.cut_short));
    // A short request may have had its answer from Envoy when HAProxy cut it, or been cut without a word.
    let haproxy = float(all.saturating_sub(short))..=float(all + record.untold());
    if pod.gone() && !haproxy.contains(&pod.gt.cut()) {
        found.push(format!("gt's cuts, and HAProxy's: {}, not {haproxy:?}", pod.gt.cut()));
    }
    found.extend(parity::disagreements(pod));
    let (cause, state) = match play.scenario {
        Which::Fault => ("lb_flush", "FAULT"),
        Which::Killed => ("killed", "DRAINING"),
        _ => ("lb_flush", "CLOSING"),
    };
    for (kind, _) in &pod.gt.cuts {
        if kind.label("cause") != cause || kind.label("hc_state") != state {
            found.push(format!("gt has {kind}, not cause={cause} hc_state={state}"));
        }
    }
    if play.http2 && play.scenario != Which::Killed {
        let streams = by(&pod.gt.cuts, "how").into_iter().filter(|(how, _)| how != "stream_reset");
        differ("gt's cuts that are no streams", &streams.collect::<Vec<_>>(), &Vec::new(), found);
    } else if !play.http2 && play.scenario != Which::S3 && play.is_cut() {
        // Each connection that ended had a request.
        let hows = wire::ends(&pod.connections).into_iter().map(|(end, count)| (end.how(), count)).collect();
        differ("gt's cuts by how, and the wire's ends", &by(&pod.gt.cuts, "how"), &owned(&hows), found);
        let resets =
            wire::resets(&pod.connections).into_iter().map(|(end, count)| (end.direction(), count)).collect();
        differ(
            "gt's cuts with an RST, and the wire's connections with one",
            &by(&pod.gt.cut_rsts, "direction"),
            &owned(&resets),
            found,
        );
    }
}

/// A drain in which something was cut is broken, every other one protected; a pod that was not deleted has none. A proxy that was
/// killed cannot tell of its streams any more, and HTTP/2 leaves no sign of them in the socket: gt cannot be certain then.
fn verdict(play: &Play, pod: &Pod, found: &mut Vec<String>) {
    if pod.gt.verdicts.is_none() {
        return;
    }
    let should = match (pod.gone(), pod.envoy_cut) {
        (false, _) => "none yet",
        (true, 0) => "protected",
        (true, _) if play.http2 && pod.killed == pod.envoy_cut => "inconclusive",
        (true, _) => "broken",
    };
    differ("gt's verdict", &pod.gt.verdict(), &should, found);
}

#[expect(clippy::cast_precision_loss, reason = "counts of a round")]
fn float(count: u64) -> f64 {
    count as f64
}

#[expect(clippy::cast_precision_loss, reason = "seconds since 1970")]
fn seconds(time: i64) -> f64 {
    time as f64
}

fn owned(counts: &BTreeMap<&'static str, u64>) -> BTreeMap<String, f64> {
    counts.iter().map(|(word, count)| ((*word).to_owned(), float(*count))).collect()
}

fn differ<T: Debug + PartialEq>(what: &str, is: &T, should: &T, found: &mut Vec<String>) {
    if is != should {
        found.push(format!("{what}: {is:?}, not {should:?}"));
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
pub(super) mod tests;
