//! The objects of the Prometheus operator, against its own types.

use anyhow::{Context as _, ensure};
use serde_json::json;
use xtask::{
    deploy::{manifests, operator},
    setup,
};

use crate::{Case, rendered, without_kubectl};

pub fn cases() -> Vec<Case> {
    let no_types = setup::operator::found()
        .is_none()
        .then(|| "the operator's types are not here: `cargo xtask setup` installs them".to_owned());
    let skip = no_types.clone().or_else(without_kubectl);
    vec![
        Case::new("operator::fields_are_known", skip.as_ref(), fields_are_known),
        Case::new("operator::mistakes_are_told", no_types.as_ref(), mistakes_are_told),
    ]
}

/// Exercises the PodMonitor and each PrometheusRule so that a misspelt field is found before the operator drops it.
fn fields_are_known() -> anyhow::Result<()> {
    let types = setup::operator::types()?;
    for kustomization in ["overlays/homelab", "overlays/staging"] {
        let objects = rendered(kustomization)?;
        let of_group = objects
            .iter()
            .filter(|object| object["apiVersion"].as_str().unwrap_or_default().starts_with(operator::GROUP))
            .collect::<Vec<_>>();
        ensure!(of_group.len() == 5, "{kustomization} has {} objects of the operator", of_group.len());
        let refused = operator::refused(&types, of_group)?;
        ensure!(refused.is_empty(), "{kustomization}:\n{}", refused.join("\n"));
    }
    Ok(())
}

/// Exercises three mistakes so that the types are asked.
fn mistakes_are_told() -> anyhow::Result<()> {
    let types = setup::operator::types()?;
    let files = manifests::read(&manifests::directory().join("prometheus/pod-monitor.yaml"))?;
    let good = files.first().context("pod-monitor.yaml is empty")?;
    for (path, value, word) in [
        ("/spec/podMetricsEndpoints/0", json!({"port": "metrics", "honourLabels": true}), "honourLabels"),
        ("/spec/podMetricsEndpoints/0", json!({"port": 9464}), "port"),
        ("/kind", json!("PodMonitors"), "no such kind"),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(path).context("no such path")? = value;
        let refused = operator::refused(&types, [&bad])?;
        ensure!(refused.iter().any(|line| line.contains(word)), "{word}: {refused:?}");
    }
    Ok(())
}
