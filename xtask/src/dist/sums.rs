//! SHA-256 of what was made, as `sha256sum --check` reads it.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use crate::sandbox;

/// Names and digests of the files of a directory, by name.
pub(super) fn of(dir: &Path) -> Result<Vec<(String, String)>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut names = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<Vec<_>>>()?;
    names.sort();
    let told = sandbox::run(Command::new("sha256sum").args(&names).current_dir(dir))?;
    told.lines()
        .map(|line| {
            let (digest, name) = line.split_once("  ").context("sha256sum tells something else")?;
            Ok((name.to_owned(), digest.to_owned()))
        })
        .collect()
}

/// One line each.
pub(super) fn text(sums: &[(String, String)]) -> String {
    sums.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect()
}
