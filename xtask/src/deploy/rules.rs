//! Prometheus rules: those of the PrometheusRules in `deploy/prometheus`, as a Prometheus without the operator reads them.

use std::{
    collections::BTreeSet,
    io::{self, Write as _},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::manifests;

/// A file of rules: all groups of the objects, in their order. JSON, which is YAML as well.
#[must_use]
pub fn file(objects: &[Value]) -> Value {
    let groups: Vec<_> = manifests::of_kind(objects, "PrometheusRule")
        .flat_map(|rule| rule["spec"]["groups"].as_array().into_iter().flatten().cloned())
        .collect();
    json!({ "groups": groups })
}

/// The rules as they stand in `deploy/prometheus`, with the settings of no overlay.
pub fn base() -> Result<Value> {
    let directory = manifests::directory().join("prometheus");
    let component = manifests::read(&directory.join("kustomization.yaml"))?;
    let listed = component.first().and_then(|component| component["resources"].as_array());
    let mut objects = Vec::new();
    for resource in listed.context("deploy/prometheus/kustomization.yaml lists no resources")? {
        let name = resource.as_str().context("a resource of deploy/prometheus is no file name")?;
        objects.extend(manifests::read(&directory.join(name))?);
    }
    Ok(file(&objects))
}

/// `cargo xtask rules`: prints them.
pub fn print() -> Result<()> {
    let text = format!("{:#}\n", base()?);
    io::stdout().write_all(text.as_bytes()).context("cannot write to stdout")
}

/// The rules of a file that have a certain key: `alert` or `record`.
pub fn rules<'a>(file: &'a Value, key: &'a str) -> impl Iterator<Item = &'a Value> {
    let groups = file["groups"].as_array().into_iter().flatten();
    groups
        .flat_map(|group| group["rules"].as_array().into_iter().flatten())
        .filter(move |rule| rule[key].is_string())
}

/// The names of metrics in an expression that begin with one of `prefixes`, such as `gt_`. Suffixes of histograms are
/// taken off.
#[must_use]
pub fn metrics(expression: &str, prefixes: &[&str]) -> BTreeSet<String> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | ':');
    expression
        .split(|character| !is_part(character))
        .filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)))
        .map(|word| {
            let bare = ["_bucket", "_count", "_sum"].iter().find_map(|suffix| word.strip_suffix(suffix));
            bare.unwrap_or(word).to_owned()
        })
        .collect()
}

/// The labels that an expression asks of metrics whose names begin with one of `prefixes`: metric, without a histogram's suffix,
/// and label. What stands in braces right after a name; not what it groups by.
#[must_use]
pub fn labels(expression: &str, prefixes: &[&str]) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    let mut rest = expression;
    while let Some((before, after)) = rest.split_once('{') {
        // Text in quotes may hold anything.
        let mut quoted = false;
        let end = after.find(|character| {
            quoted ^= character == '"';
            character == '}' && !quoted
        });
        let (selector, following) = after.split_at(end.unwrap_or(after.len()));
        let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | ':');
        let name = before.rsplit(|character| !is_part(character)).next().unwrap_or_default();
        for metric in metrics(name, prefixes) {
            // Every second piece is a value.
            let matchers = selector.split('"').step_by(2);
            let names = matchers.filter_map(|matcher| matcher.split(['=', '!']).next());
            let names = names.map(|name| name.trim_matches([' ', ',', '\n'])).filter(|name| !name.is_empty());
            found.extend(names.map(|name| (metric.clone(), name.to_owned())));
        }
        rest = following;
    }
    found
}

/// The labels that an expression groups, matches or joins by: what stands in brackets after `by`, `on` and the like. A label that is
/// on no series is no mistake to Prometheus, and groups all series into one.
#[must_use]
pub fn grouped(expression: &str) -> BTreeSet<String> {
    const WORDS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
    let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | ':');
    let mut found = BTreeSet::new();
    // Text in quotes may hold anything: every second piece is one.
    let bare: Vec<_> = expression.split('"').step_by(2).collect();
    let bare = bare.join(" ");
    for (start, _) in bare.match_indices('(') {
        let before = bare[..start].trim_end();
        let word = before.rsplit(|character| !is_part(character)).next().unwrap_or_default();
        if WORDS.contains(&word) {
            let list = bare[start + 1..].split(')').next().unwrap_or_default();
            let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
            found.extend(names.map(str::to_owned));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises each way to name labels beside functions and texts that look like one, so that only labels are found.
    #[test]
    fn labels_that_group() {
        let found = grouped(
            r#"sum by (a, b) (rate(x{y="by (z)"}[5m])) > on(c) group_left () avg without(d) (y) and ignoring ( e ) abs(w)"#,
        );
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d", "e"]);
    }

    /// Exercises selectors with several labels, values with braces and commas, and metrics of others, so that each label that
    /// is asked for is found, and no value is taken for one.
    #[test]
    fn labels_in_expressions() {
        let found = labels(
            r#"sum by (pod) (gt_a_bucket{x=~"p{1,2}", y!="z"}) / up{job="gt"} + gt_b{} * gt_c{w!~"a=b"}[5m]"#,
            &["gt_"],
        );
        let found: Vec<_> = found.iter().map(|(metric, label)| format!("{metric} {label}")).collect();
        assert_eq!(found, ["gt_a x", "gt_a y", "gt_c w"]);
    }

    /// Exercises an expression with labels, a histogram and a recorded series so that each name is found once.
    #[test]
    fn names_in_expressions() {
        let found = metrics(
            r#"sum(rate(gt_poll_seconds_bucket{source="gt"}[5m])) / gt_pods > scalar(gt:x:y) and gt_poll_seconds_count"#,
            &["gt_"],
        );
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["gt_pods", "gt_poll_seconds"]);
    }

    /// Exercises the files of the repository so that no group is left out.
    #[test]
    fn all_groups() {
        let file = base().unwrap();
        let names: Vec<_> =
            file["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["gt.settings", "gt.slo", "gt.drains", "gt.health"]);
    }
}
