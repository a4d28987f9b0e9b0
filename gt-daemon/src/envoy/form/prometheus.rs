//! Prometheus' text: `metric{label="value",..} number`. Which part of a scope is in the metric's name and which in
//! labels depends on the tags Envoy was told to extract: both together are the scope here.

use super::{Malformed, Stat, refuse_cut, short};
use crate::{
    envoy::stat::Group,
    exposition::{Part, is_metric, part},
};

pub(super) fn read(body: &str, mut row: impl FnMut(Stat, &str, u64)) -> Result<(), Malformed> {
    refuse_cut(body)?;
    for line in body.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let no_metric = || Malformed::new(format!("{:?} is no metric", short(line)));
        let end = line.find(['{', ' ']).ok_or_else(no_metric)?;
        let (metric, rest) = line.split_at(end);
        if !is_metric(metric) {
            return Err(no_metric());
        }
        // Without Envoy's prefix it is the application's or the agent's, which 15020 shows beside Envoy's.
        let Some((stat, in_name)) = Stat::of_metric(metric) else {
            let plausible = rest.trim_end().contains(' ');
            if plausible { continue } else { return Err(no_metric()) }
        };
        let (label, value) = labels(stat.group(), rest).ok_or_else(no_metric)?;
        let value = number(value).ok_or_else(|| Malformed::value(metric, value))?;
        match (label.as_str(), in_name) {
            ("", in_name) => row(stat, in_name, value),
            (label, "") => row(stat, label, value),
            (label, in_name) => row(stat, &format!("{label}_{in_name}"), value),
        }
    }
    Ok(())
}

/// Splits `{..} number ..` into the label that names the scope (empty without one) and the number.
fn labels(group: Group, rest: &str) -> Option<(String, &str)> {
    let Some(mut rest) = rest.strip_prefix('{') else {
        return Some((String::new(), rest.split_whitespace().next()?));
    };
    let mut scope = String::new();
    loop {
        let (name, value) = match part(rest)? {
            Part::End(after) => return Some((scope, after.split_whitespace().next()?)),
            Part::Label(name, value, after) => {
                rest = after;
                (name, value)
            }
        };
        if is_scope(group, name) {
            scope = value;
        } else if name.ends_with("worker_id") {
            // A row of one worker: no listener and no cluster has this name.
            scope.insert_str(0, "worker_0");
        }
    }
}

/// The tags that hold a scope: Envoy's own names have `envoy_` before them, Istio's do not.
fn is_scope(group: Group, label: &str) -> bool {
    let label = label.strip_prefix("envoy_").unwrap_or(label);
    match group {
        Group::Http => label == "http_conn_manager_prefix",
        Group::Cluster => label == "cluster_name",
        Group::Server | Group::ListenerManager => false,
    }
}

/// Envoy writes whole numbers; Istio's agent may write them again as floating point ones.
fn number(text: &str) -> Option<u64> {
    if let Ok(whole) = text.parse() {
        return Some(whole);
    }
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float: f64 = text.parse().ok()?;
    let whole = float.fract() == 0.0 && (0.0..=EXACT).contains(&float);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, not negative, below 2^53"
    )]
    whole.then_some(float as u64)
}
