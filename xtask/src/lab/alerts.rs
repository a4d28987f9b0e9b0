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

/// The same of a drain that took too long: where the sidecar gave up it fires after half a minute, which not every round lasts.
const EXCEEDED: &str = "IGWDrainTimeoutExceeded";

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
    for pod in gone {
        found.extend(eventually_empty_panels(prometheus, play.scenario, pod)?);
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

/// Whether an alert may fire or not, as it likes.
fn is_free(alert: &str, pods: &[Pod]) -> bool {
    let gave_up = |pod: &&Pod| pod.transitions.iter().any(|transition| transition.ends_with(">FAULT"));
    pods.iter().filter(gave_up).any(|pod| alert == format!("{EXCEEDED} {}", pod.name))
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
    let told = of_round.map(|(alert, pod)| format!("{alert} {pod}").trim_end().to_owned());
    Ok(told.filter(|alert| !is_free(alert, pods)).collect())
}

/// What only a drain in the right order measures: that the last request ended before the load balancer's DOWN.
const IN_ORDER: [&str; 1] = ["gt_active_zero_to_lb_down"];

/// Whether a drain of this scenario must have something to show in a panel: one that cut for most, one in order for the others.
fn is_shown_by(scenario: Which, expression: &str) -> bool {
    let needs_order = !rules::metrics(expression, &IN_ORDER).is_empty();
    match scenario {
        Which::S1 => !needs_order,
        Which::S2 => needs_order,
        _ => false,
    }
}

/// Panels without data, when what follows from recorded series has had its time.
fn eventually_empty_panels(prometheus: &Prometheus, scenario: Which, pod: &Pod) -> Result<Vec<String>> {
    let until = Instant::now() + LIMIT;
    loop {
        let found = empty_panels(prometheus, scenario, pod)?;
        if found.is_empty() || Instant::now() > until {
            return Ok(found);
        }
        interrupt::pause(INTERVAL)?;
    }
}

/// Panels whose question had no answer in the last minute about a pod of which there must be something to show.
fn empty_panels(prometheus: &Prometheus, scenario: Which, pod: &Pod) -> Result<Vec<String>> {
    let variables = [
        ("namespace", pod::NAMESPACE),
        ("pod", &pod.name),
        ("instance", ".*"),
        ("__range", "1h"),
        ("__rate_interval", "5m"),
    ];
    let mut found = Vec::new();
    let queries = dashboards::all()?.into_iter().flat_map(|dashboard| dashboard.queries());
    for query in queries.filter(|query| is_shown_by(scenario, &query.expression)) {
        let expression = dashboards::filled(&query.expression, &variables);
        // A quantile of nothing is a series without a number.
        let answer = prometheus.query(&format!("last_over_time((({expression}) >= -Inf)[1m:1s])"))?;
        if answer.is_empty() {
            found.push(format!("dashboard {}: nothing for {expression}", query.place));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises each dashboard's queries, so that each is asked of one scenario and none of nobody.
    #[test]
    fn every_query_is_asked() {
        let queries: Vec<_> =
            dashboards::all().unwrap().into_iter().flat_map(|dashboard| dashboard.queries()).collect();
        for scenario in [Which::S1, Which::S2] {
            assert!(queries.iter().any(|query| is_shown_by(scenario, &query.expression)), "{scenario:?}");
        }
        for query in queries {
            let asked = [Which::S1, Which::S2].map(|scenario| is_shown_by(scenario, &query.expression));
            assert_eq!(asked.into_iter().filter(|asked| *asked).count(), 1, "{}", query.expression);
        }
    }
}
