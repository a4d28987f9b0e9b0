//! HAProxy's metrics, by either of its exporters. Pure.
//!
//! - The one that is built in has `haproxy_server_status{proxy,server,state}`, 1 for the state it is in; before 2.4 one number
//!   without `state`: 0 DOWN, 1 UP, 2 MAINT, 3 DRAIN, 4 NOLB. It has no word for `UP 1/2`, nor for `no check`: a server that
//!   is not checked has no number of failed checks (NaN).
//! - The old `haproxy_exporter` has `haproxy_server_up{backend,server}`, in which 0 is anything that it does not know for up:
//!   DOWN, MAINT, NOLB, and `UP 1/2` too. That alone is never DOWN; it is, when the time in DOWN has grown meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use super::{form::Malformed, row::Row, word::Serving};
use crate::exposition::{Part, is_metric, part};

/// The states in the order of the numbers before 2.4.
const STATES: [&str; 5] = ["DOWN", "UP", "MAINT", "DRAIN", "NOLB"];

/// What is told of one server.
#[derive(Debug, Default)]
struct Told {
    /// The states that it is in, and those that it is not in.
    states: BTreeSet<String>,
    others: usize,
    up: Option<f64>,
    failures: Option<f64>,
    downtime: Option<f64>,
    downs: Option<f64>,
}

/// Reads a whole exposition.
pub(super) fn read(text: &str) -> Result<Vec<Row>, Malformed> {
    if !text.ends_with('\n') {
        return Err(Malformed::Cut);
    }
    let mut servers: BTreeMap<(String, String), Told> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let no_metric = || Malformed::Metric(line.chars().take(80).collect());
        let (metric, rest) = line.split_at(line.find(['{', ' ']).ok_or_else(no_metric)?);
        if !is_metric(metric) {
            return Err(no_metric());
        }
        if metric.starts_with("haproxy_server_") {
            let (labels, value) = labels(rest).ok_or_else(no_metric)?;
            take(metric, &labels, value, &mut servers);
        }
    }
    let rows = servers.into_iter().filter_map(|((backend, server), told)| told.row(&backend, &server));
    Ok(rows.collect())
}

fn take(
    metric: &str,
    labels: &BTreeMap<&str, String>,
    value: f64,
    servers: &mut BTreeMap<(String, String), Told>,
) {
    let label = |name: &str| labels.get(name).cloned();
    let Some(key) = label("proxy").or_else(|| label("backend")).zip(label("server")) else { return };
    let told = servers.entry(key).or_default();
    match metric {
        "haproxy_server_status" => match label("state") {
            Some(state) if value == 1.0 => drop(told.states.insert(state)),
            Some(_) => told.others += 1,
            None => {
                let number = STATES.into_iter().zip(0_u8..).find(|(_, number)| value == f64::from(*number));
                told.states.extend(number.map(|(state, _)| state.to_owned()));
                told.others += 1;
            }
        },
        "haproxy_server_up" => told.up = Some(value),
        "haproxy_server_check_failures_total" => told.failures = Some(value),
        "haproxy_server_downtime_seconds_total" => told.downtime = Some(value),
        "haproxy_server_check_up_down_total" => told.downs = Some(value),
        _ => {}
    }
}

impl Told {
    /// `None` where no one state is told.
    fn row(self, backend: &str, server: &str) -> Option<Row> {
        let downtime_s = self.downtime.filter(|seconds| seconds.is_finite());
        let downs = self.downs.filter(|count| count.is_finite());
        let row = match (self.states.first(), self.up) {
            // One state of several: an answer that lost a line may have lost this one.
            (Some(state), _) if self.states.len() == 1 && self.others > 0 => {
                let is_checked = !self.failures.is_some_and(f64::is_nan);
                Row::new(backend, server, if state == "UP" && !is_checked { "no check" } else { state })
            }
            (Some(_), _) => return None,
            (None, Some(1.0)) => Row { serving: Some(Serving::Up), ..Row::new(backend, server, "1") },
            (None, Some(0.0)) => Row::new(backend, server, "0"),
            _ => return None,
        };
        Some(Row { downtime_s, downs, ..row })
    }
}

/// The labels in `{..} number` and the number.
fn labels(rest: &str) -> Option<(BTreeMap<&str, String>, f64)> {
    let mut rest = rest.strip_prefix('{')?;
    let mut labels = BTreeMap::new();
    loop {
        match part(rest)? {
            Part::Label(name, value, after) => {
                labels.insert(name, value);
                rest = after;
            }
            Part::End(after) => return Some((labels, after.split_whitespace().next()?.parse().ok()?)),
        }
    }
}
