//! Objects of the Prometheus operator against the operator's own types.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// The group of its objects.
pub const GROUP: &str = "monitoring.coreos.com/";

const PROGRAM: &str = include_str!("operator.py");

/// What the types in the Python directory `types` do not take of these objects: one line each, none when all is well.
pub fn refused<'a>(types: &Path, objects: impl IntoIterator<Item = &'a Value>) -> Result<Vec<String>> {
    let mut child = Command::new("python3")
        .args(["-c", PROGRAM])
        .env("PYTHONPATH", types)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start python3: `cargo xtask setup` installs what gt needs")?;
    let mut stdin = child.stdin.take().context("python3 has no stdin")?;
    let lines: String = objects.into_iter().map(|object| format!("{object}\n")).collect();
    // It reads all before it ends, or has failed and says why.
    let written = stdin.write_all(lines.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().context("cannot read what python3 says")?;
    if !output.status.success() {
        bail!("python3 ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    written.context("cannot write to python3")?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}
