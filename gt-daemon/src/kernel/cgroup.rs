//! How cgroups are mounted here, and so whether a socket's cgroup tells its pod.

use std::path::{Path, PathBuf};

/// Which cgroup hierarchies are mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Only v2: a socket's cgroup is its pod's.
    Unified,
    /// v1 controllers beside a v2 tree: sockets may all carry the same cgroup, so namespaces decide.
    Hybrid,
    /// Only v1.
    Legacy,
}

/// The cgroup file systems below one mount root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroups {
    pub mode: Mode,
    /// Trees in which pods can be found, the v2 one first.
    pub trees: Vec<PathBuf>,
}

/// Why cgroups cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    #[error(
        "no cgroup tree at {root}: it is where pods are found; mount it (`mount -t cgroup2 none {root}`), \
         mount the host's into the container, or name another place with --cgroup-root"
    )]
    Missing { root: PathBuf },
    #[error(
        "cannot read the cgroup tree at {root}: {cause}; gt must run as root with /sys/fs/cgroup readable"
    )]
    Unreadable { root: PathBuf, cause: std::io::Error },
}

impl Cgroups {
    /// Looks at `/sys/fs/cgroup` or whatever stands for it. A v2 tree is known by `cgroup.controllers`, a v1
    /// hierarchy by `cgroup.procs` (Documentation/admin-guide/cgroup-v2.rst).
    pub fn probe(root: &Path) -> Result<Self, CgroupError> {
        let unreadable = |cause| CgroupError::Unreadable { root: root.to_owned(), cause };
        let is_v2 = |path: &Path| path.join("cgroup.controllers").exists();
        if is_v2(root) {
            return Ok(Self { mode: Mode::Unified, trees: vec![root.to_owned()] });
        }
        let entries = match std::fs::read_dir(root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(CgroupError::Missing { root: root.to_owned() });
            }
            Err(error) => return Err(unreadable(error)),
        };
        let mut v2 = Vec::new();
        let mut v1 = Vec::new();
        for entry in entries {
            let path = entry.map_err(unreadable)?.path();
            if is_v2(&path) {
                v2.push(path);
            } else if path.join("cgroup.procs").exists() && !path.is_symlink() {
                v1.push(path);
            }
        }
        v1.sort();
        let mode = if v2.is_empty() { Mode::Legacy } else { Mode::Hybrid };
        let trees: Vec<_> = v2.into_iter().chain(v1).collect();
        if trees.is_empty() {
            return Err(CgroupError::Missing { root: root.to_owned() });
        }
        Ok(Self { mode, trees })
    }

    /// Trees that show every pod, the v2 one first. v1 hierarchies have the same directories each, as kubelets and
    /// runtimes make them, so one of them is enough: `memory`, which every kubelet needs, or else the first.
    #[must_use]
    pub fn pod_trees(&self) -> Vec<PathBuf> {
        let v2 = usize::from(self.mode != Mode::Legacy);
        let (v2, v1) = self.trees.split_at_checked(v2).unwrap_or((&self.trees, &[]));
        let memory = v1.iter().find(|tree| tree.ends_with("memory"));
        v2.iter().chain(memory.or(v1.first())).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(root: &Path, file: &str) {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    /// Exercises the three kinds of mounts on made trees, so that the mode is never guessed.
    #[test]
    fn modes() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        assert!(matches!(Cgroups::probe(&root.join("none")), Err(CgroupError::Missing { .. })));
        assert!(matches!(Cgroups::probe(root), Err(CgroupError::Missing { .. })));
        touch(root, "pids/cgroup.procs");
        touch(root, "memory/cgroup.procs");
        let legacy = Cgroups::probe(root).unwrap();
        assert_eq!(legacy.mode, Mode::Legacy);
        assert_eq!(legacy.trees, [root.join("memory"), root.join("pids")]);
        assert_eq!(legacy.pod_trees(), [root.join("memory")]);
        touch(root, "cpu/cgroup.procs");
        touch(root, "unified/cgroup.controllers");
        touch(root, "unified/cgroup.procs");
        let hybrid = Cgroups::probe(root).unwrap();
        assert_eq!(hybrid.mode, Mode::Hybrid);
        assert_eq!(hybrid.trees.first(), Some(&root.join("unified")));
        assert_eq!(hybrid.pod_trees(), [root.join("unified"), root.join("memory")]);
        touch(root, "cgroup.controllers");
        let unified = Cgroups::probe(root).unwrap();
        assert_eq!(unified, Cgroups { mode: Mode::Unified, trees: vec![root.to_owned()] });
        assert_eq!(unified.pod_trees(), [root]);
    }
}
