//! The deletion of a pod: as it was asked for, and by gt's record of the drain. Pure.

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde_json::Value;

use super::api_pod::Deletion;

/// In what a record's `timeline` and the `reasons` in its `intervals` differ from what was played; empty when they agree. `killed`:
/// how many requests were in flight when the grace period ended, where gt can be certain of them.
pub(super) fn disagreements(
    timeline: &str,
    intervals: &str,
    deletion: Deletion,
    killed: Option<u64>,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let facts: Vec<Value> = timeline
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .context("gt's timeline is not JSON by line")?;
    let told: Vec<_> = facts.iter().filter(|fact| fact["event"] == "pod_deleted").map(mark).collect();
    if told != [Some(deletion)] {
        found.push(format!("the deletion by gt's record: {told:?}, not {deletion:?}"));
    }
    let intervals: Value = serde_json::from_str(intervals).context("gt's intervals are not JSON")?;
    let reasons = intervals["reasons"].as_array().context("gt's record has no reasons")?;
    if let Some(count) = killed {
        let expected = format!("the grace period ended with {count} in flight: the proxy was killed");
        if !reasons.iter().any(|reason| *reason == expected) {
            found.push(format!("gt's reasons: {reasons:?}, without {expected:?}"));
        }
    }
    Ok(found)
}

/// What a `pod_deleted` says; `None` where that is no second, or no grace period.
fn mark(fact: &Value) -> Option<Deletion> {
    let at: Timestamp = fact["ts"].as_str()?.parse().ok()?;
    let grace = fact["grace_seconds"].as_i64()?;
    (at.subsec_nanosecond() == 0).then(|| Deletion { asked: at.as_second(), grace })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELETION: Deletion = Deletion { asked: 1_796_036_280, grace: 120 };
    const GOOD: &str = r#"{"ts":"2026-11-30T10:58:00.000000Z","event":"pod_deleted","grace_seconds":120}"#;

    fn judged(timeline: &str, reasons: &str, killed: Option<u64>) -> usize {
        disagreements(timeline, &format!(r#"{{"reasons":[{reasons}]}}"#), DELETION, killed).unwrap().len()
    }

    /// Exercises records with the deadline for the request, another grace period, no deletion or two, so that only the true one
    /// is right.
    #[test]
    fn deletions() {
        assert_eq!(judged(GOOD, "", None), 0);
        for wrong in [
            String::new(),
            format!("{GOOD}\n{GOOD}"),
            GOOD.replace("10:58", "11:00"),
            GOOD.replace("00.000000", "00.250000"),
            GOOD.replace("120", "30"),
            GOOD.replace("120", "null"),
        ] {
            assert_eq!(judged(&wrong, "", None), 1, "{wrong}");
        }
        assert!(disagreements("{", r#"{"reasons":[]}"#, DELETION, None).is_err());
        assert!(disagreements(GOOD, "{}", DELETION, None).is_err());
    }

    /// Exercises reasons of a killed proxy so that neither another number nor an end for no known reason is taken for it.
    #[test]
    fn the_end_of_the_grace_period() {
        let reason = r#""x", "the grace period ended with 2 in flight: the proxy was killed""#;
        assert_eq!(judged(GOOD, reason, Some(2)), 0);
        assert_eq!(judged(GOOD, reason, Some(1)), 1);
        assert_eq!(judged(GOOD, r#""the proxy's process ended with 2 requests in flight""#, Some(2)), 1);
    }
}
