//! What a real Prometheus with gt's rules says of a round: which alerts fire, and whether the dashboards have something to show.

use std::{
    collections::BTreeSet,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::json;

use super::{
    artifacts::append,
    gateway::Gateway,
    plan::{Play, Which},
    record::{Pod, Record},
};
use crate::{
    deploy::{dashboards, rules},
    stage::{
        counts::Kind,
        interrupt, pod,
        prometheus::{INTERVAL, Prometheus, Series},
    },
};

/// The alert that a cut in a drain must raise, and nothing else may.
const CUT: &str = "GTRequestsCutInDrain";

/// The same of a drain of which nobody can tell whether it cut anything.
const INCONCLUSIVE: &str = "GTDrainInconclusive";

/// Until Prometheus has the verdict and its rules have seen it; a busy machine is given time.
const LIMIT: Duration = Duration::from_secs(15);

/// Evaluations after which an alert that is silent stays so.
const LOOKS: u32 = 3;

/// Waits until Prometheus has scraped counters of these pods: one whose first scrape is after a cut shows no increase. It takes
/// five seconds to find its first targets.
pub(super) fn sees(prometheus: &Prometheus, pods: &[Gateway]) -> Result<()> {
    interrupt::wait_for("Prometheus to have the pods' counters", LIMIT, || {
        let scraped = prometheus.query("group by (pod) (gt_drains_total)")?;
        let has = |pod: &Gateway| scraped.iter().any(|series| series.labels.get("pod") == Some(&pod.name));
        Ok(pods.iter().all(has).then_some(()))
    })
}

/// In what Prometheus and gt's own numbers disagree; empty when they do not.
pub(super) fn disagreements(
    prometheus: &Prometheus,
    play: &Play,
    record: &Record,
    directory: &Path,
) -> Result<Vec<String>> {
    let gone: Vec<_> = record.gone().collect();
    interrupt::wait_for("Prometheus to have each pod's verdict", LIMIT, || {
        let told = prometheus.query("sum by (pod) (gt_drains_total) > 0")?;
        let has = |pod: &&Pod| told.iter().any(|series| series.labels.get("pod") == Some(&pod.name));
        Ok(gone.iter().all(has).then_some(()))
    })?;
    interrupt::pause(INTERVAL * LOOKS)?;
    let expected: BTreeSet<_> =
        gone.iter().flat_map(|pod| due(pod).map(|alert| format!("{alert} {}", pod.name))).collect();
    let mut firing = firing(prometheus, &record.pods)?;
    if firing != expected {
        interrupt::pause(INTERVAL * LOOKS)?;
        firing = self::firing(prometheus, &record.pods)?;
    }
    append(&directory.join("alerts.json"), &format!("{:#}\n", json!({"firing": firing})))?;
    let mut found = Vec::new();
    if firing != expected {
        found.push(format!("alerts that fire: {firing:?}, not {expected:?}"));
    }
    if play.scenario == Which::S1 {
        for pod in gone {
            found.extend(eventually_empty_panels(prometheus, pod)?);
        }
    }
    Ok(found)
}

/// The alerts that a pod's drain must raise.
fn due(pod: &Pod) -> impl Iterator<Item = &'static str> {
    let is_inconclusive = pod.gt.verdict() == "inconclusive";
    [(CUT, cut_for_certain(pod)), (INCONCLUSIVE, is_inconclusive)]
        .into_iter()
        .filter_map(|(alert, is_due)| is_due.then_some(alert))
}

/// As the rules have it: neither possible cuts nor clients that left.
fn cut_for_certain(pod: &Pod) -> bool {
    let certain = |kind: &Kind| kind.label("evidence") != "possible" && kind.label("cause") != "client_abort";
    pod.gt.cuts.iter().any(|(kind, count)| certain(kind) && *count > 0.0)
}

/// The alerts that fire, each with its pod, of this round's pods and of no pod at all.
fn firing(prometheus: &Prometheus, pods: &[Pod]) -> Result<BTreeSet<String>> {
    let alerts = prometheus.query(r#"ALERTS{alertstate="firing"}"#)?;
    let label = |series: &Series, name: &str| series.labels.get(name).cloned().unwrap_or_default();
    let told = alerts.iter().map(|series| (label(series, "alertname"), label(series, "pod")));
    let of_round = told.filter(|(_, pod)| pod.is_empty() || pods.iter().any(|known| known.name == *pod));
    Ok(of_round.map(|(alert, pod)| format!("{alert} {pod}").trim_end().to_owned()).collect())
}

/// What has no value here: a load balancer's own numbers, which nobody exports, and an order of events that is not that of S1.
const ELSEWHERE: [&str; 2] = ["lb:", "gt_active_zero_to_lb_down"];

/// The same, when what follows from recorded series has had its time.
fn eventually_empty_panels(prometheus: &Prometheus, pod: &Pod) -> Result<Vec<String>> {
    let until = Instant::now() + LIMIT;
    loop {
        let found = empty_panels(prometheus, pod)?;
        if found.is_empty() || Instant::now() > until {
            return Ok(found);
        }
        interrupt::pause(INTERVAL)?;
    }
}

/// Panels whose question had no answer in the last minute about a pod of which there must be something to show.
fn empty_panels(prometheus: &Prometheus, pod: &Pod) -> Result<Vec<String>> {
    let variables = [
        ("namespace", pod::NAMESPACE),
        ("pod", &pod.name),
        ("instance", ".*"),
        ("__range", "1h"),
        ("__rate_interval", "5m"),
    ];
    let mut found = Vec::new();
    let queries = dashboards::all()?.into_iter().flat_map(|dashboard| dashboard.queries());
    for query in queries.filter(|query| rules::metrics(&query.expression, &ELSEWHERE).is_empty()) {
        let expression = dashboards::filled(&query.expression, &variables);
        if prometheus.query(&format!("last_over_time(({expression})[1m:1s])"))?.is_empty() {
            found.push(format!("dashboard {}: nothing for {expression}", query.place));
        }
    }
    Ok(found)
}
