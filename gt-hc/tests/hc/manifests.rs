//! The gateways that are shipped below `deploy/`, judged by `gt-hc check` as `cargo xtask gateway` does it.

use std::{fs, path::Path};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use xtask::deploy::{gateway, manifests};

use crate::Case;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("manifests::keep_the_rules", keep_the_rules),
        Case::new("manifests::contradictions_are_told", contradictions_are_told),
        Case::new("manifests::the_document_shows_them", the_document_shows_them),
        Case::new("manifests::no_gateway_is_an_error", no_gateway_is_an_error),
    ]
}

const FILES: [&str; 2] = ["gateway/deployment.yaml", "gateway/istio-values.yaml"];

fn hc() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_gt-hc"))
}

fn read(file: &str) -> anyhow::Result<Vec<Value>> {
    manifests::read(&manifests::directory().join(file))
}

fn faults(documents: &[Value]) -> anyhow::Result<Vec<String>> {
    let judgements = gateway::judge(hc(), documents)?;
    Ok(judgements.into_iter().flat_map(|judgement| judgement.faults).collect())
}

/// Exercises both gateways, and the service, so that what is shipped keeps the runbook's rules, with no number missing.
fn keep_the_rules() -> anyhow::Result<()> {
    for file in FILES {
        let mut documents = read(file)?;
        if file.contains("deployment") {
            documents.extend(read("gateway/service.yaml")?);
        }
        let judgements = gateway::judge(hc(), &documents)?;
        for judgement in &judgements {
            ensure!(judgement.faults.is_empty(), "{file}: {judgement:?}");
        }
        let report = &judgements.first().context("no judgement")?.report;
        ensure!(report.matches("  holds ").count() == 4, "{file}: {report}");
    }
    Ok(())
}

/// Exercises each number by a wrong one, in both forms, so that a contradiction is told.
fn contradictions_are_told() -> anyhow::Result<()> {
    let config = json!("terminationDrainDuration: 10s\ndrainDuration: 150s");
    let closes_early = json!("terminationDrainDuration: 150s\ndrainDuration: 44s");
    let pod = "/spec/template";
    let cases = [
        (FILES[0], format!("{pod}/spec/terminationGracePeriodSeconds"), json!(130)),
        (FILES[0], format!("{pod}/metadata/annotations/proxy.istio.io~1config"), config.clone()),
        (FILES[0], format!("{pod}/metadata/annotations/proxy.istio.io~1config"), closes_early),
        (FILES[0], format!("{pod}/spec/containers/1/env/0/value"), json!("90")),
        (FILES[0], format!("{pod}/spec/containers/1/env/1/value"), json!("4")),
        (FILES[0], "/metadata/annotations/runbook.gt.dev~1p99".to_owned(), json!("200s")),
        (FILES[0], "/metadata/annotations/runbook.gt.dev~1inter".to_owned(), json!("5s")),
        (FILES[1], "/terminationGracePeriodSeconds".to_owned(), json!(30)),
        (FILES[1], "/podAnnotations/proxy.istio.io~1config".to_owned(), config),
        (FILES[1], "/additionalContainers/0/env/0/value".to_owned(), json!("10")),
        (FILES[1], "/service/externalTrafficPolicy".to_owned(), json!("Cluster")),
    ];
    for (file, path, value) in cases {
        let mut documents = read(file)?;
        let place = documents.iter_mut().find_map(|document| document.pointer_mut(&path));
        *place.with_context(|| format!("{file} has no {path}"))? = value.clone();
        let found = faults(&documents)?;
        ensure!(found.len() == 1, "{file}: {path} = {value}: {found:?}");
    }
    // A number that is not there is none that holds.
    let mut documents = read(FILES[1])?;
    documents[0]["podAnnotations"] = json!({});
    ensure!(faults(&documents)?[0].contains("cannot be judged"));
    Ok(())
}

/// Exercises docs/gt-hc.md so that the container shown there is the one that is shipped.
fn the_document_shows_them() -> anyhow::Result<()> {
    let document = fs::read_to_string(xtask::cargo::root().join("docs/gt-hc.md"))?;
    let shown = document.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    let shown = manifests::parse(shown.context("docs/gt-hc.md shows no container")?)?;
    let shown = &shown[0]["containers"][0];
    let shipped = read(FILES[0])?;
    let deployment = manifests::of_kind(&shipped, "Deployment").next().context("no Deployment")?;
    let shipped = &deployment["spec"]["template"]["spec"]["containers"][1];
    for key in ["name", "command", "env", "lifecycle"] {
        ensure!(
            shown[key] == shipped[key],
            "{key}: docs/gt-hc.md has {}, and it is {}",
            shown[key],
            shipped[key]
        );
    }
    Ok(())
}

/// Exercises a file without a gateway, so that a wrong file is not taken for a good one.
fn no_gateway_is_an_error() -> anyhow::Result<()> {
    for file in ["base/daemonset.yaml", "gateway/service.yaml"] {
        let error = gateway::judge(hc(), &read(file)?).err().with_context(|| format!("{file} was taken"))?;
        ensure!(error.to_string().contains("no gateway"), "{error:#}");
    }
    Ok(())
}
