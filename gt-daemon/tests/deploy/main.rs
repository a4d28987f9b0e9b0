//! Tests of what is applied to a cluster or a host: the files below `deploy/`, against the Kubernetes API's types, the
//! Prometheus operator's, promtool, systemd, and the daemon that they are for.

mod container;
mod dashboards;
mod docs;
mod examples;
mod objects;
mod operator;
mod rights;
mod rules;
#[path = "../common/suite.rs"]
mod suite;
mod systemd;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
    sync::{Mutex, PoisonError},
};

use libtest_mimic::Arguments;
use serde_json::Value;
use xtask::{deploy::manifests, setup};

use suite::Case;

/// Everything that kustomize can render; the components are rendered as parts of the overlays.
const KUSTOMIZATIONS: [&str; 4] = ["base", "gateway", "overlays/homelab", "overlays/staging"];

/// What was rendered by now: many tests ask for the same, and kubectl takes a second to start.
static RENDERED: Mutex<BTreeMap<String, Vec<Value>>> = Mutex::new(BTreeMap::new());

/// What kubectl renders of one of them.
fn rendered(kustomization: &str) -> anyhow::Result<Vec<Value>> {
    let mut rendered = RENDERED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(objects) = rendered.get(kustomization) {
        return Ok(objects.clone());
    }
    let objects = manifests::render(&setup::kubectl::kubectl()?, kustomization)?;
    rendered.insert(kustomization.to_owned(), objects.clone());
    Ok(objects)
}

/// The DaemonSet of a rendered kustomization.
fn daemon_set(kustomization: &str) -> anyhow::Result<Value> {
    let objects = rendered(kustomization)?;
    let found = manifests::of_kind(&objects, "DaemonSet").next();
    found.cloned().ok_or_else(|| anyhow::anyhow!("{kustomization} has no DaemonSet"))
}

/// A file of the repository, by its path from the root.
fn repository(path: &str) -> PathBuf {
    xtask::cargo::root().join(path)
}

/// Why tests that need a program cannot run; `None` when it is there.
fn without(program: &str) -> Option<String> {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_err().then(|| format!("{program} is not installed: `cargo xtask setup` installs it"))
}

/// The same for kubectl. A wrong GT_KUBECTL is no reason to skip, and an error of each test.
fn without_kubectl() -> Option<String> {
    matches!(setup::kubectl::found(), Ok(None))
        .then(|| "no kubectl here: `cargo xtask setup` installs one".to_owned())
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let cases = [
        objects::cases(),
        operator::cases(),
        rights::cases(),
        container::cases(),
        rules::cases(),
        dashboards::cases(),
        docs::cases(),
        examples::cases(),
        systemd::cases(),
    ];
    suite::run(&arguments, cases.into_iter().flatten()).exit_code()
}
