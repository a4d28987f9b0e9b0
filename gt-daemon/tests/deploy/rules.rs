//! Prometheus rules, with promtool as the judge.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use anyhow::{Context as _, ensure};
use gt_daemon::metrics::families::TABLES;
use serde_json::Value;
use xtask::{
    deploy::{dashboards, manifests, rules},
    sandbox,
};

use crate::{Case, rendered, repository, without, without_kubectl};

pub fn cases() -> Vec<Case> {
    let no_promtool = without("promtool");
    let no_kubectl = without_kubectl();
    vec![
        Case::new("rules::check", no_promtool.as_ref().or(no_kubectl.as_ref()), check),
        Case::new("rules::unit_tests", no_promtool.as_ref(), unit_tests),
        Case::new("rules::each_fires_and_is_silent", None, each_fires_and_is_silent),
        Case::new("rules::each_has_a_page", None, each_has_a_page),
        Case::new("rules::metrics_are_documented", None, metrics_are_documented),
        Case::new("rules::settings_are_the_gateways", no_kubectl.as_ref(), settings_are_the_gateways),
    ]
}

/// Exercises the rules of each overlay, which has settings of its own.
fn check() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    for overlay in ["overlays/homelab", "overlays/staging"] {
        let file = directory.path().join("rules.json");
        fs::write(&file, rules::file(&rendered(overlay)?).to_string())?;
        let said = sandbox::run(Command::new("promtool").args(["check", "rules"]).arg(&file))?;
        ensure!(said.contains("rules found"), "{overlay}: {said}");
    }
    Ok(())
}

fn test_files() -> anyhow::Result<Vec<(String, String)>> {
    let directory = manifests::directory().join("prometheus/tests");
    let mut files = Vec::new();
    for entry in fs::read_dir(&directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.push((name, fs::read_to_string(&path)?));
    }
    files.sort_unstable();
    ensure!(!files.is_empty(), "{} is empty", directory.display());
    Ok(files)
}

/// Exercises each rule on series made for it.
fn unit_tests() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    fs::write(directory.path().join("rules.json"), rules::base()?.to_string())?;
    let files = test_files()?;
    for (name, text) in &files {
        fs::write(directory.path().join(name), text)?;
    }
    let names = files.iter().map(|(name, _)| name);
    sandbox::run(Command::new("promtool").args(["test", "rules"]).args(names).current_dir(directory.path()))
        .map(drop)
}

/// Exercises the tests themselves, so that no alert is without one in which it fires and one in which it does not.
fn each_fires_and_is_silent() -> anyhow::Result<()> {
    let (mut firing, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for (name, text) in test_files()? {
        let documents = manifests::parse(&text).with_context(|| name.clone())?;
        for test in documents.iter().flat_map(|file| file["tests"].as_array().into_iter().flatten()) {
            for case in test["alert_rule_test"].as_array().into_iter().flatten() {
                let alert = case["alertname"].as_str().unwrap_or_default().to_owned();
                let fires = case["exp_alerts"].as_array().is_some_and(|alerts| !alerts.is_empty());
                if fires {
                    firing.insert(alert)
                } else {
                    silent.insert(alert)
                };
            }
        }
    }
    let all: BTreeSet<_> = alerts()?.into_keys().collect();
    ensure!(firing == all, "tests in which they fire: {firing:?}, and alerts: {all:?}");
    ensure!(silent == all, "tests in which they are silent: {silent:?}, and alerts: {all:?}");
    Ok(())
}

fn alerts() -> anyhow::Result<BTreeMap<String, Value>> {
    let base = rules::base()?;
    let all = rules::rules(&base, "alert");
    Ok(all.map(|rule| (rule["alert"].as_str().unwrap_or_default().to_owned(), rule.clone())).collect())
}

/// Exercises the links of alerts so that each has its page, and no page is of an alert that is no more.
fn each_has_a_page() -> anyhow::Result<()> {
    let alerts = alerts()?;
    for (name, rule) in &alerts {
        let page = format!("docs/runbooks/{name}.md");
        ensure!(rule["annotations"]["runbook_url"] == page.as_str(), "{name}: {}", rule["annotations"]);
        let text = fs::read_to_string(repository(&page)).with_context(|| page.clone())?;
        ensure!(text.starts_with(&format!("# {name}\n")), "{page} has another title");
        for key in ["summary", "description"] {
            ensure!(rule["annotations"][key].is_string(), "{name} has no {key}");
        }
        let severity = rule["labels"]["severity"].as_str().unwrap_or_default();
        ensure!(["page", "warning", "info"].contains(&severity), "{name}: severity {severity:?}");
    }
    for entry in fs::read_dir(repository("docs/runbooks"))? {
        let name = entry?.file_name().to_string_lossy().trim_end_matches(".md").to_owned();
        ensure!(name == "README" || alerts.contains_key(&name), "docs/runbooks/{name}.md is of no alert");
    }
    Ok(())
}

/// What Prometheus puts on each series.
const OF_THE_SCRAPE: [&str; 2] = ["instance", "job"];

/// What an expression may group by beside labels of gt's: the PodMonitor's, a histogram's, HAProxy's.
const OF_OTHERS: [&str; 3] = ["node", "le", "proxy"];

/// The labels by which an expression groups or joins, and which no series has.
pub fn strange_groups(expression: &str) -> Vec<String> {
    let of_families: BTreeSet<_> =
        TABLES.iter().flat_map(|(_, families)| *families).flat_map(|family| family.labels).copied().collect();
    let known = |label: &str| {
        of_families.contains(label) || OF_THE_SCRAPE.contains(&label) || OF_OTHERS.contains(&label)
    };
    rules::grouped(expression).into_iter().filter(|label| !known(label)).collect()
}

/// Exercises every expression of rules and dashboards so that it names only what gt exports, or what is recorded here, with labels
/// that are there: a label that is not selects nothing, and an alert on it never fires.
fn metrics_are_documented() -> anyhow::Result<()> {
    let documented = fs::read_to_string(repository("docs/metrics.md"))?;
    let base = rules::base()?;
    let recorded: BTreeSet<_> =
        rules::rules(&base, "record").filter_map(|rule| rule["record"].as_str()).collect();
    let mut asked: Vec<(String, String)> = Vec::new();
    for key in ["alert", "record"] {
        let of_key = rules::rules(&base, key);
        asked.extend(
            of_key.map(|rule| (rule[key].to_string(), rule["expr"].as_str().unwrap_or_default().to_owned())),
        );
    }
    for dashboard in dashboards::all()? {
        asked.extend(dashboard.queries().into_iter().map(|query| (query.place, query.expression)));
    }
    for (place, expression) in &asked {
        for metric in rules::metrics(expression, &["gt_", "gt:", "lb:"]) {
            let is_known = if metric.contains(':') {
                recorded.contains(metric.as_str())
            } else {
                documented.contains(&format!("`{metric}`"))
            };
            ensure!(is_known, "{place}: {metric} is neither in docs/metrics.md nor recorded");
        }
        let strange = strange_groups(expression);
        ensure!(strange.is_empty(), "{place}: no series has the labels {strange:?}");
        for (metric, label) in rules::labels(expression, &["gt_"]) {
            let mut families = TABLES.iter().flat_map(|(_, families)| *families);
            let bare = metric.strip_suffix("_total").or(metric.strip_suffix("_info")).unwrap_or(&metric);
            let family = families.find(|family| family.name == bare);
            let family = family.with_context(|| format!("{place}: no family of {metric}"))?;
            let is_known = family.labels.contains(&label.as_str()) || OF_THE_SCRAPE.contains(&label.as_str());
            ensure!(is_known, "{place}: {metric} has no label {label}: {:?}", family.labels);
        }
    }
    ensure!(asked.len() > 40, "only {} expressions", asked.len());
    Ok(())
}

/// Exercises the numbers that alerts compare with so that they are those of the gateway beside them: `DRAIN_TIMEOUT`, and the grace
/// period and two minutes. A longer number is an alert that comes too late.
fn settings_are_the_gateways() -> anyhow::Result<()> {
    let gateway = rendered("gateway")?;
    let deployment = manifests::of_kind(&gateway, "Deployment").next().context("no Deployment")?;
    let pod = &deployment["spec"]["template"]["spec"];
    let values = manifests::read(&manifests::directory().join("gateway/istio-values.yaml"))?;
    let values = values.first().context("istio-values.yaml is empty")?;
    for (overlay, containers, grace) in [
        ("overlays/homelab", &pod["containers"], &pod["terminationGracePeriodSeconds"]),
        ("overlays/staging", &values["additionalContainers"], &values["terminationGracePeriodSeconds"]),
    ] {
        let containers = containers.as_array().into_iter().flatten();
        let mut variables =
            containers.flat_map(|container| container["env"].as_array().into_iter().flatten());
        let timeout = variables.find(|variable| variable["name"] == "DRAIN_TIMEOUT");
        let timeout = timeout.and_then(|variable| variable["value"].as_str()).context("no DRAIN_TIMEOUT")?;
        let grace = grace.as_u64().context("no grace period")?;
        let file = rules::file(&rendered(overlay)?);
        let set: BTreeMap<_, _> = rules::rules(&file, "record")
            .filter_map(|rule| Some((rule["record"].as_str()?, rule["expr"].as_str()?)))
            .collect();
        for (name, expected) in [
            ("gt:drain_timeout_seconds:setting", format!("vector({timeout})")),
            ("gt:drain_limit_seconds:setting", format!("vector({})", grace + 120)),
        ] {
            ensure!(
                set.get(name) == Some(&expected.as_str()),
                "{overlay}: {name}: {:?}, not {expected}",
                set.get(name)
            );
        }
    }
    Ok(())
}
