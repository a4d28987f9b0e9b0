//! Kubernetes objects: read from files, or rendered by kustomize.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::{cargo, sandbox};

/// The directory of all of them.
#[must_use]
pub fn directory() -> PathBuf {
    cargo::root().join("deploy")
}

/// What `kubectl apply -k` would apply of a directory below `deploy/`, such as `overlays/staging`.
pub fn render(kubectl: &Path, relative: &str) -> Result<Vec<Value>> {
    let directory = directory().join(relative);
    let text = sandbox::run(Command::new(kubectl).arg("kustomize").arg(&directory))
        .with_context(|| format!("kustomize does not render {}", directory.display()))?;
    parse(&text).with_context(|| format!("what kustomize renders of {} is no YAML", directory.display()))
}

/// The documents of a YAML file.
pub fn read(file: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    parse(&text).with_context(|| format!("{} is no YAML", file.display()))
}

/// The documents of a YAML text.
pub fn parse(text: &str) -> Result<Vec<Value>> {
    Ok(serde_saphyr::from_multiple(text)?)
}

/// The objects of a kind.
pub fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

/// `kind namespace/name`, for messages.
#[must_use]
pub fn name(object: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    format!("{} {}/{}", word(&object["kind"]), word(&metadata["namespace"]), word(&metadata["name"]))
}
