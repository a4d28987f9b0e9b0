//! `gt-daemon timeline` over a round's artifacts: by them alone it must come to what happened, and by gt's record to what the
//! daemon said.

use std::{collections::BTreeMap, fmt, path::Path, process::Command};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::record::{Pod, Record};

/// In what it differs; empty when it agrees.
pub(super) fn disagreements(daemon: &Path, directory: &Path, record: &Record) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let by_artifacts = verdicts(daemon, directory)?;
    for pod in record.gone() {
        let unjudged = Judged::default();
        let told = by_artifacts.get(&pod.name).unwrap_or(&unjudged);
        let should = should(pod, record);
        if !should.contains(&told.verdict.as_str()) {
            found.push(format!("pod {}: the verdict by artifacts alone: {told}, not {should:?}", pod.name));
        }
        let places = [directory.join("gt-record"), directory.join(&pod.name).join("gt-record")];
        for place in places.iter().filter(|place| place.is_dir()) {
            let Some(told) = verdicts(daemon, place)?.remove(&pod.name) else { continue };
            if told.verdict != pod.gt.verdict() {
                let live = pod.gt.verdict();
                found.push(format!("pod {}: the verdict by gt's record: {told}, not {live}", pod.name));
            } else if !should.contains(&told.verdict.as_str()) {
                found.push(format!("pod {}: gt's record gives as its reasons: {told}", pod.name));
            }
        }
    }
    Ok(found)
}

/// What happened. A request that HAProxy cut without a word may be in no artifact but Envoy's counters, which are none.
fn should(pod: &Pod, record: &Record) -> &'static [&'static str] {
    let by_haproxy = record.haproxy.cut.get(&pod.server).copied().unwrap_or_default();
    match (pod.envoy_cut, by_haproxy, record.untold()) {
        (0, 0, 0) => &["protected"],
        (0, 0, _) => &["protected", "inconclusive"],
        (_, 0, _) => &["broken", "inconclusive"],
        _ => &["broken"],
    }
}

/// What `timeline` said of one drain.
#[derive(Debug)]
struct Judged {
    verdict: String,
    reasons: Vec<String>,
}

impl Default for Judged {
    fn default() -> Self {
        Self { verdict: "none".to_owned(), reasons: Vec::new() }
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.verdict, self.reasons.join("; "))
    }
}

/// By pod.
fn verdicts(daemon: &Path, directory: &Path) -> Result<BTreeMap<String, Judged>> {
    let output = Command::new(daemon)
        .args([Path::new("timeline"), Path::new("--json"), directory])
        .output()
        .with_context(|| format!("cannot run {}", daemon.display()))?;
    if !matches!(output.status.code(), Some(0 | 2 | 3)) {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("{} timeline cannot judge {}: {why}", daemon.display(), directory.display());
    }
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let told = lines.map(|line| {
        let line: Value = serde_json::from_slice(line)?;
        let word = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let reasons = line.get("reasons").and_then(Value::as_array).into_iter().flatten();
        let reasons = reasons.filter_map(Value::as_str).map(str::to_owned).collect();
        Ok((word("pod"), Judged { verdict: word("verdict"), reasons }))
    });
    told.collect::<Result<_, serde_json::Error>>().context("gt-daemon timeline --json wrote what is no JSON")
}
