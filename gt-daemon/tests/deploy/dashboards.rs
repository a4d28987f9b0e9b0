//! Grafana's dashboards, as far as they can be judged without a Grafana. `cargo xtask lab` asks a Prometheus their
//! queries.

use std::{collections::BTreeSet, fs};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use xtask::deploy::{dashboards, manifests};

use crate::{Case, rendered, without_kubectl};

pub fn cases() -> Vec<Case> {
    let skip = without_kubectl();
    vec![
        Case::new("dashboards::panels", None, panels),
        Case::new("dashboards::are_provisioned", skip.as_ref(), are_provisioned),
    ]
}

/// Grafana's grid.
const COLUMNS: u64 = 24;

/// Exercises each panel so that it has a place of its own, a question, and a word on what it shows.
fn panels() -> anyhow::Result<()> {
    let mut names = BTreeSet::new();
    for dashboard in dashboards::all()? {
        let (file, value) = (&dashboard.file, &dashboard.value);
        ensure!(names.insert(value["uid"].to_string()), "{file}: another dashboard has this uid");
        let variables: BTreeSet<_> = value["templating"]["list"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|variable| variable["name"].as_str())
            .collect();
        ensure!(variables.contains("datasource"), "{file}: {variables:?}");
        let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
        for panel in dashboard.panels() {
            let title = panel["title"].as_str().unwrap_or_default();
            ensure!(ids.insert(panel["id"].to_string()), "{file}: {title}: its id stands twice");
            ensure!(!title.is_empty() && panel["description"].is_string(), "{file}: {panel}");
            ensure!(panel["datasource"]["uid"] == json!("${datasource}"), "{file}: {title}");
            for cell in cells(&panel["gridPos"]).with_context(|| format!("{file}: {title}"))? {
                ensure!(cell.0 < COLUMNS && taken.insert(cell), "{file}: {title} overlaps at {cell:?}");
            }
        }
        let queries = dashboard.queries();
        ensure!(queries.len() >= dashboard.panels().count(), "{file}: a panel asks nothing");
        for query in queries {
            let text = dashboards::filled(&query.expression, &[("__rate_interval", "1m"), ("__range", "1h")]);
            for name in text.split('$').skip(1) {
                let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
                let name: String = name.chars().take_while(|character| is_part(*character)).collect();
                ensure!(variables.contains(name.as_str()), "{}: no variable ${name}", query.place);
            }
        }
    }
    ensure!(names.len() == 3, "{names:?}");
    Ok(())
}

/// The cells of the grid that a panel covers.
fn cells(place: &Value) -> anyhow::Result<Vec<(u64, u64)>> {
    let number = |key: &str| place[key].as_u64().with_context(|| format!("no {key}"));
    let (x, y, w, h) = (number("x")?, number("y")?, number("w")?, number("h")?);
    Ok((x..x + w).flat_map(|column| (y..y + h).map(move |row| (column, row))).collect())
}

/// Exercises the ConfigMaps so that each has the label that Grafana's sidecar looks for, and the very file.
fn are_provisioned() -> anyhow::Result<()> {
    let objects = rendered("overlays/staging")?;
    let mut provided = BTreeSet::new();
    for map in manifests::of_kind(&objects, "ConfigMap") {
        ensure!(map["metadata"]["labels"]["grafana_dashboard"] == json!("1"), "{}", map["metadata"]);
        for (name, text) in map["data"].as_object().into_iter().flatten() {
            let file = fs::read_to_string(manifests::directory().join("grafana").join(name))?;
            ensure!(text.as_str() == Some(&file), "{name} is another than the file");
            provided.insert(name.clone());
        }
    }
    let files: BTreeSet<_> = dashboards::all()?.into_iter().map(|dashboard| dashboard.file).collect();
    ensure!(provided == files, "provided {provided:?}, of {files:?}");
    Ok(())
}
