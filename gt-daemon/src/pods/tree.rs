//! Pods in the cgroup tree.
//!
//! Known shapes: the cgroupfs driver's `kubepods/[<qos>/]pod<uid>/<id>` and the systemd driver's
//! `kubepods.slice/[kubepods-<qos>.slice/]kubepods-[<qos>-]pod<uid_>.slice/<runtime>-<id>.scope`, at the root
//! of a tree or below other directories (kind, nested nodes).

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

/// How deep below a root the pods' directories may lie.
const DEPTH: usize = 6;

/// Directories of the pods found, by UID.
#[derive(Debug, Default)]
pub struct PodDirs(HashMap<String, Vec<PathBuf>>);

impl PodDirs {
    /// Walks the trees; directories that go away meanwhile are passed over.
    #[must_use]
    pub fn scan(trees: &[PathBuf]) -> Self {
        let mut dirs = Self::default();
        for tree in trees {
            dirs.walk(tree, 0, false);
        }
        dirs
    }

    /// A pod's directories, the v2 tree's first.
    #[must_use]
    pub fn of(&self, uid: &str) -> &[PathBuf] {
        self.0.get(uid).map_or(&[], Vec::as_slice)
    }

    fn walk(&mut self, directory: &Path, depth: usize, below_kubepods: bool) {
        for child in subdirectories(directory) {
            let Some(name) = child.file_name().and_then(|name| name.to_str()) else { continue };
            if below_kubepods && let Some(uid) = pod_uid(name) {
                self.0.entry(uid).or_default().push(child);
            } else if depth < DEPTH {
                let below = below_kubepods || name.starts_with("kubepods");
                self.walk(&child, depth + 1, below);
            }
        }
    }
}

/// The directories in a directory; none when it cannot be read.
pub fn subdirectories(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
}

/// The UID in a pod's directory name, with hyphens as the API writes it; `None` for other directories.
#[must_use]
pub fn pod_uid(name: &str) -> Option<String> {
    let uid = match name.strip_suffix(".slice") {
        Some(slice) => {
            let rest = slice.strip_prefix("kubepods-")?;
            let rest =
                rest.strip_prefix("burstable-").or_else(|| rest.strip_prefix("besteffort-")).unwrap_or(rest);
            // systemd reads a hyphen as a level, so the kubelet writes underscores.
            rest.strip_prefix("pod")?.replace('_', "-")
        }
        None => name.strip_prefix("pod")?.replace('_', "-"),
    };
    let is_uid = uid.len() >= 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_uid.then_some(uid)
}

/// The container id in the name of a directory below a pod's: 64 hex digits, alone or in
/// `<runtime>-<id>.scope`.
#[must_use]
pub fn container_id(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let id = name.rsplit_once('-').map_or(name, |(_, id)| id);
    (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UID: &str = "8ba3b3c8-6cb5-4d4f-9c3e-2a8f1a7d7f10";

    /// Exercises the names both drivers give, so that a pod is found in each and nowhere else.
    #[test]
    fn names() {
        let under = UID.replace('-', "_");
        for name in [
            format!("pod{UID}"),
            format!("kubepods-pod{under}.slice"),
            format!("kubepods-burstable-pod{under}.slice"),
            format!("kubepods-besteffort-pod{under}.slice"),
        ] {
            assert_eq!(pod_uid(&name).as_deref(), Some(UID), "{name}");
        }
        let static_pod = "0123456789abcdef0123456789abcdef";
        assert_eq!(pod_uid(&format!("pod{static_pod}")).as_deref(), Some(static_pod));
        for name in ["pod", "podman", "kubepods.slice", "system.slice", "kubepods-burstable.slice", "pod-x"] {
            assert_eq!(pod_uid(name), None, "{name}");
        }
        let id = "0f".repeat(32);
        assert_eq!(container_id(&id), Some(id.as_str()));
        assert_eq!(container_id(&format!("cri-containerd-{id}.scope")), Some(id.as_str()));
        assert_eq!(container_id(&format!("crio-{id}.scope")), Some(id.as_str()));
        assert_eq!(container_id("init.scope"), None);
    }

    /// Exercises made trees, so that nested nodes are found and look-alikes outside kubepods are not.
    #[test]
    fn trees() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let pod = root.join(format!("kubepods/burstable/pod{UID}"));
        let nested = root.join(format!("docker/abc/kubelet/kubepods/pod{}", UID.replace('8', "7")));
        for path in [&pod, &nested, &root.join(format!("system.slice/pod{}", UID.replace('8', "6")))] {
            fs::create_dir_all(path).unwrap();
        }
        let dirs = PodDirs::scan(&[root.to_owned()]);
        assert_eq!(dirs.of(UID), [pod]);
        assert_eq!(dirs.of(&UID.replace('8', "7")), [nested]);
        assert!(dirs.of(&UID.replace('8', "6")).is_empty());
    }

    proptest! {
        #[test]
        fn any_name(name in ".{0,120}") {
            let _found_or_not = (pod_uid(&name), container_id(&name));
        }
    }
}
