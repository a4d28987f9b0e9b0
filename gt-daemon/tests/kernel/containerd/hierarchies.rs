//! One cgroup in every tree of the machine, as a kubelet and a runtime make them.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use anyhow::Result;
use gt_daemon::{
    kernel::cgroup::{Cgroups, Mode},
    pods::tree::subdirectories,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use xtask::sandbox::Cgroup;

/// Where cgroups are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// Whether a socket's cgroup tells its container here.
pub fn are_unified() -> bool {
    Cgroups::probe(Path::new(ROOT)).is_ok_and(|cgroups| cgroups.mode == Mode::Unified)
}

/// The cgroup of one path in all trees. Removed on drop with what others made below it.
pub struct Everywhere(Vec<Cgroup>);

impl Everywhere {
    pub fn create(path: &str) -> Result<Self> {
        let trees = Cgroups::probe(Path::new(ROOT))?.trees;
        trees.iter().map(|tree| Cgroup::create(tree, path)).collect::<Result<_>>().map(Self)
    }
}

impl Drop for Everywhere {
    fn drop(&mut self) {
        // The guards refuse to touch cgroups that they did not make.
        for cgroup in &self.0 {
            for child in subdirectories(cgroup.path()) {
                remove(&child);
            }
        }
    }
}

/// The controllers of a unified root, on for all below it as a node wants them; on drop as they were.
pub struct Controllers {
    file: PathBuf,
    before: BTreeSet<String>,
}

impl Controllers {
    /// `None` where the root is not unified: each controller has a tree of its own there.
    pub fn turn_on() -> Option<Self> {
        let file = Path::new(ROOT).join("cgroup.subtree_control");
        let before = Self::named_in(&file)?;
        for controller in Self::named_in(&Path::new(ROOT).join("cgroup.controllers"))? {
            // One that cannot be on here is not missed by a runtime that sets no limits.
            let _on_or_not = fs::write(&file, format!("+{controller}"));
        }
        Some(Self { file, before })
    }

    fn named_in(file: &Path) -> Option<BTreeSet<String>> {
        Some(fs::read_to_string(file).ok()?.split_whitespace().map(str::to_owned).collect())
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        let now = Self::named_in(&self.file).unwrap_or_default();
        for controller in now.difference(&self.before) {
            if let Err(error) = fs::write(&self.file, format!("-{controller}")) {
                eprintln!("left behind: {controller} is on in {}: {error}", self.file.display());
            }
        }
    }
}

/// Removes a cgroup and all below it, with the processes inside.
fn remove(directory: &Path) {
    for child in subdirectories(directory) {
        remove(&child);
    }
    // A cgroup stays busy until the last process in it has been reaped.
    for _ in 0..300 {
        let processes = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        for process in processes.lines().filter_map(|line| line.parse().ok()).filter(|process| *process > 0) {
            let _gone_already = kill(Pid::from_raw(process), Signal::SIGKILL);
        }
        if fs::remove_dir(directory).is_ok() || !directory.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    eprintln!("left behind: cgroup {}", directory.display());
}
