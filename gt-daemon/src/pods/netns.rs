//! A pod's network namespace, found through one of its processes and held open.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

/// A network namespace that cannot go away, nor its inode number to another, while this lives.
#[derive(Debug)]
pub struct Netns {
    inode: u32,
    _held: File,
}

impl Netns {
    /// Opens a file that stands for a network namespace: `/proc/<pid>/ns/net` or a bind mount of one.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let held = File::open(path)?;
        let inode = u32::try_from(held.metadata()?.ino()).map_err(std::io::Error::other)?;
        Ok(Self { inode, _held: held })
    }

    /// The namespace of the first readable process below a cgroup directory; `None` when there is none.
    #[must_use]
    pub fn of_cgroup(directory: &Path, proc: &Path) -> Option<Self> {
        let pids = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.lines().filter(|pid| *pid != "0") {
            if let Ok(netns) = Self::open(&proc.join(pid).join("ns/net")) {
                return Some(netns);
            }
        }
        fs::read_dir(directory)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .find_map(|entry| Self::of_cgroup(&entry.path(), proc))
    }

    /// Inode number of the host's: that of process 1, in the host's (or a nested node's) pid namespace. Where
    /// process 1 may not be looked at (it holds a capability this process lacks), that of `kthreadd`: kernel
    /// threads stay in the first namespace.
    pub fn host(proc: &Path) -> std::io::Result<u32> {
        match Self::open(&proc.join("1/ns/net")) {
            Ok(netns) => Ok(netns.inode),
            Err(error) => {
                let kthreadd = proc.join("2");
                if fs::read_to_string(kthreadd.join("comm")).is_ok_and(|name| name.trim() == "kthreadd") {
                    return Ok(Self::open(&kthreadd.join("ns/net"))?.inode);
                }
                Err(error)
            }
        }
    }

    /// Inode number, as `ls -L -i` and the kernel's `net.ns.inum` tell it.
    #[must_use]
    pub fn inode(&self) -> u32 {
        self.inode
    }
}
