//! When HAProxy marked a server DOWN: by its own log, and by gt's record of the drain.

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde_json::Value;

/// Fails unless the record's `timeline` has this server's DOWN between two instants that enclose HAProxy's own, of the `log` of the
/// round.
pub(super) fn compare(timeline: &str, log: &[String], server: &str) -> Result<()> {
    let Some(at) = log.iter().find_map(|line| down(line, server)) else {
        // Not every deletion is seen by HAProxy before the next pod answers in its place.
        return Ok(());
    };
    let facts: Vec<Value> = timeline
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .context("gt's timeline is not JSON by line")?;
    let is_down = |fact: &&Value| {
        let is_its = fact["server"].as_str().is_some_and(|name| name.ends_with(&format!("/{server}")));
        fact["event"] == "haproxy_backend_down" && fact["predicted"] == false && is_its
    };
    let told = facts
        .iter()
        .find(is_down)
        .with_context(|| format!("gt's record does not say that HAProxy marked {server} DOWN at {at}"))?;
    let instant = |field: &str| told[field].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let (from, to) = instant("last_up").zip(instant("ts")).context("gt's DOWN has no two instants")?;
    ensure!(
        (from..=to).contains(&at),
        "HAProxy marked {server} DOWN at {at}, and gt's record says {from} to {to}"
    );
    Ok(())
}

/// The instant of a line about the server's DOWN.
fn down(line: &str, server: &str) -> Option<Timestamp> {
    let is_about = line.contains(&format!("/{server} is DOWN"));
    line.split(' ').next()?.parse().ok().filter(|_| is_about)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(ts: &str, server: &str) -> Result<()> {
        let log = ["2026-11-30T17:13:16.284246+00:00 Server gateway/worker1-0 is DOWN, reason: x".to_owned()];
        let timeline = format!(
            "{{\"ts\":\"{ts}\",\"event\":\"haproxy_backend_down\",\"server\":\"gateway/{server}\",\
             \"last_up\":\"2026-11-30T17:13:16.100000Z\",\"predicted\":false}}\n"
        );
        compare(&timeline, &log, "worker1-0")
    }

    /// Exercises records whose DOWN encloses HAProxy's, misses it, or is another server's, so that only the first is right.
    #[test]
    fn records() {
        assert!(judged("2026-11-30T17:13:16.300000Z", "worker1-0").is_ok());
        assert!(judged("2026-11-30T17:13:16.200000Z", "worker1-0").is_err());
        assert!(judged("2026-11-30T17:13:16.300000Z", "worker1-00").is_err());
        assert!(compare("", &[], "worker1-0").is_ok());
    }
}
