//! Which directories of a cgroup tree may lead to pods.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// How deep below a root directories are looked at. The deepest that is known is a node in a rootless
/// container: 10 levels to its pods. This leaves room for such a node in a pod, and for what containers make
/// below them.
pub(super) const DEPTH: usize = 32;

/// The directories in a directory; none when it cannot be read.
pub fn subdirectories(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
}

/// Whether there may be pods below a directory of this name, outside a pod.
///
/// Slices and other directories are looked into. So are scopes and services, since either may hold a node: a
/// container of Docker or Podman, or k3s and Usernetes run by a user (testdata/cgroup_paths.toml has
/// examples). A service without cgroups below it costs one watch. systemd's other units never have any, nor
/// do its own services and the monitors of containers.
pub(super) fn may_lead_to_pods(name: &str) -> bool {
    let Some((unit, kind)) = name.rsplit_once('.') else { return true };
    match kind {
        "mount" | "socket" | "swap" => false,
        "service" => !unit.starts_with("systemd-") || unit.starts_with("systemd-nspawn@"),
        "scope" => unit != "init" && !unit.starts_with("session-") && !unit.contains("conmon-"),
        _ => true,
    }
}
