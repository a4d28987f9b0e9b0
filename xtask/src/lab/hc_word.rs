//! When the sidecar changed its state: by its own log, and by gt's record of the drain. Pure.

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde_json::Value;

use super::record::transition;

/// The transitions of the sidecar's `log` that gt's `timeline` does not have at the same instant: none where gt has read that log.
pub(super) fn disagreements(timeline: &str, log: &str) -> Result<Vec<String>> {
    let facts: Vec<Value> = timeline
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .context("gt's timeline is not JSON by line")?;
    let known: Vec<_> =
        facts.iter().filter(|fact| fact["event"] == "hc_state").filter_map(told_by_gt).collect();
    let logged = log.lines().filter_map(|line| Some((told_by_hc(line)?, transition(line)?)));
    let missing = logged.filter(|logged| !known.contains(logged));
    Ok(missing
        .map(|(at, change)| format!("hc's log has {change} at {at}, and gt's record has it not: {known:?}"))
        .collect())
}

fn told_by_gt(fact: &Value) -> Option<(Timestamp, String)> {
    let (from, to) = fact["from"].as_str().zip(fact["to"].as_str())?;
    Some((fact["ts"].as_str()?.parse().ok()?, format!("{from}>{to}")))
}

fn told_by_hc(line: &str) -> Option<Timestamp> {
    line.split(' ').find_map(|word| word.strip_prefix("ts=")).and_then(|text| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "ts=2026-11-30T21:33:33.000001Z event=start\n\
                       ts=2026-11-30T21:33:38.942029Z event=transition from=OPEN to=DRAINING reason=drain_requested\n";

    fn missing(facts: &str) -> usize {
        disagreements(facts, LOG).unwrap().len()
    }

    /// Exercises a transition that gt has at its instant, that it found out by asking some time later, or that it does not have, so
    /// that only the first is right.
    #[test]
    fn transitions() {
        let fact = |ts: &str, to: &str| {
            format!(r#"{{"ts":"2026-11-30T21:33:38.{ts}Z","event":"hc_state","from":"OPEN","to":"{to}"}}"#)
        };
        assert_eq!(missing(&fact("942029", "DRAINING")), 0);
        assert_eq!(missing(&fact("948609", "DRAINING")), 1);
        assert_eq!(missing(&fact("942029", "CLOSING")), 1);
        assert_eq!(missing(""), 1);
        assert!(disagreements("{", LOG).is_err());
        assert_eq!(disagreements("", "").unwrap(), Vec::<String>::new());
    }
}
