//! The files that docs/deploy.md shows: an overlay, which kustomize renders, and a job of Prometheus, which promtool reads.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use xtask::{
    deploy::{manifests, operator, rules},
    sandbox, setup,
};

use crate::{Case, objects, repository, without, without_kubectl};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("examples::overlay", without_kubectl().as_ref(), overlay),
        Case::new("examples::scrape", without("promtool").as_ref(), scrape),
    ]
}

/// The block of YAML in docs/deploy.md that begins with `first`.
fn block(first: &str) -> anyhow::Result<String> {
    let text = fs::read_to_string(repository("docs/deploy.md"))?;
    let mut blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let found = blocks.find(|block| block.starts_with(first));
    found.map(str::to_owned).with_context(|| format!("docs/deploy.md shows nothing that begins with {first}"))
}

/// The way from a directory to the root of all, and from there to another.
fn between(from: &Path, to: &Path) -> String {
    let up = "../".repeat(from.components().count() - 1);
    format!("{up}{}", to.display().to_string().trim_start_matches('/'))
}

/// Exercises the overlay as somebody would who copies it, so that each patch finds its place and changes what it says.
fn overlay() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let here = directory.path().canonicalize()?;
    let text = block("apiVersion: kustomize")?;
    ensure!(text.contains("- ../../base\n"), "it is for a directory beside the overlays: {text}");
    let text =
        text.replace("../../", &format!("{}/", between(&here, &manifests::directory().canonicalize()?)));
    fs::write(here.join("kustomization.yaml"), text)?;
    let rendered = manifests::render(&setup::kubectl::kubectl()?, &here.display().to_string())?;
    for object in &rendered {
        if !object["apiVersion"].as_str().unwrap_or_default().starts_with(operator::GROUP) {
            let found = objects::check(object)?;
            ensure!(found.is_empty(), "{}", found.join("\n"));
        }
    }
    let one = |kind| manifests::of_kind(&rendered, kind).next().with_context(|| format!("no {kind}"));
    let policy = &one("NetworkPolicy")?["spec"];
    let from = &policy["ingress"][0]["from"][0]["namespaceSelector"]["matchLabels"];
    ensure!(*from == json!({"kubernetes.io/metadata.name": "observability"}), "{from}");
    let ports = policy["egress"][0]["ports"].as_array().context("no ports")?;
    let ports: Vec<_> = ports.iter().map(|port| port["port"].clone()).collect();
    ensure!(ports == [443, 6443, 8404], "{ports:?}");
    let container = &one("DaemonSet")?["spec"]["template"]["spec"]["containers"][0];
    let image = container["image"].as_str().unwrap_or_default();
    ensure!(image.starts_with("registry.example/gt/gt-daemon@sha256:"), "{image}");
    let variables = container["env"].as_array().context("no variables")?;
    let lb = variables.iter().find(|variable| variable["name"] == "GT_LB").context("no GT_LB")?;
    ensure!(
        lb["value"].as_str().unwrap_or_default().contains(":8404/"),
        "another port than the policy's: {lb}"
    );
    let file = rules::file(&rendered);
    let settings: Vec<_> = rules::rules(&file, "record").take(2).map(|rule| rule["expr"].clone()).collect();
    ensure!(settings == ["vector(36)", "vector(195)"], "{settings:?}");
    Ok(())
}

/// Exercises the jobs so that Prometheus takes them, keeps the labels, and is found by alerts and dashboards under their names.
fn scrape() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("prometheus.yaml");
    let documents = manifests::parse(&block("scrape_configs:")?)?;
    let shown = documents.first().context("an empty block")?;
    // Debian's promtool was built without the discovery by Kubernetes, and calls its section an unknown one.
    let mut read = shown.clone();
    let pods = read["scrape_configs"][0].as_object_mut().and_then(|job| job.remove("kubernetes_sd_configs"));
    ensure!(pods == Some(json!([{"role": "pod", "namespaces": {"names": ["gt"]}}])), "{pods:?}");
    fs::write(&file, read.to_string())?;
    sandbox::run(Command::new("promtool").args(["check", "config", "--syntax-only"]).arg(&file))?;
    let jobs = shown["scrape_configs"].as_array().context("no jobs")?;
    ensure!(jobs.len() == 2, "{} jobs", jobs.len());
    let base = rules::base()?;
    let asks = rules::rules(&base, "alert").filter_map(|rule| rule["expr"].as_str());
    ensure!(
        asks.into_iter().any(|expression| expression.contains(r#"job=~"(.+/)?gt-daemon""#)),
        "another job"
    );
    for job in jobs {
        ensure!(job["honor_labels"] == json!(true), "{job}");
        let name = job["job_name"].as_str().unwrap_or_default();
        ensure!(name == "gt-daemon" || name.ends_with("/gt-daemon"), "no alert finds the job {name}");
    }
    // What it keeps are the DaemonSet's own label and port.
    let relabel = &jobs[0]["relabel_configs"][0];
    ensure!(relabel["regex"] == json!("gt-daemon;metrics"), "{relabel}");
    let set = manifests::read(&manifests::directory().join("base/daemonset.yaml"))?;
    let template = &set.first().unwrap_or(&Value::Null)["spec"]["template"];
    ensure!(template["metadata"]["labels"]["app.kubernetes.io/name"] == json!("gt-daemon"), "{template}");
    ensure!(template["spec"]["containers"][0]["ports"][0]["name"] == json!("metrics"), "{template}");
    Ok(())
}
