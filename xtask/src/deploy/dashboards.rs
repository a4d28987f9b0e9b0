//! Grafana's dashboards in `deploy/grafana`, and their queries.

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::manifests;

/// A dashboard and where it stands.
#[derive(Clone, Debug)]
pub struct Dashboard {
    /// The file's name.
    pub file: String,
    pub value: Value,
}

/// A question that a panel asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// `file: panel: letter`
    pub place: String,
    pub expression: String,
}

/// All dashboards, in order of their names.
pub fn all() -> Result<Vec<Dashboard>> {
    let directory = manifests::directory().join("grafana");
    let mut found = Vec::new();
    for entry in fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))? {
        let path = entry.with_context(|| format!("cannot read {}", directory.display()))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let value = serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.push(Dashboard { file, value });
    }
    found.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(found)
}

impl Dashboard {
    /// Its panels.
    pub fn panels(&self) -> impl Iterator<Item = &Value> {
        self.value["panels"].as_array().into_iter().flatten()
    }

    /// What its panels ask, and the lists of values that its variables are filled from.
    #[must_use]
    pub fn queries(&self) -> Vec<Query> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.panels()
            .flat_map(|panel| {
                let title = text(&panel["title"]);
                panel["targets"].as_array().into_iter().flatten().map(move |target| Query {
                    place: format!("{}: {title}: {}", self.file, text(&target["refId"])),
                    expression: text(&target["expr"]),
                })
            })
            .collect()
    }
}

/// An expression with Grafana's variables filled in, each name with its value; those of Grafana itself are intervals.
#[must_use]
pub fn filled(expression: &str, variables: &[(&str, &str)]) -> String {
    // The longer names first: `$__range` begins none of the others, but `$pod` might.
    let mut variables = variables.to_vec();
    variables.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    variables
        .iter()
        .fold(expression.to_owned(), |text, (name, value)| text.replace(&format!("${name}"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises names that begin alike so that neither swallows the other.
    #[test]
    fn variables_are_filled_in() {
        let filled = filled(
            "a{pod=\"$pod\", x=\"$pods\"}[$__range]",
            &[("pod", "p"), ("pods", "q"), ("__range", "1m")],
        );
        assert_eq!(filled, "a{pod=\"p\", x=\"q\"}[1m]");
    }
}
