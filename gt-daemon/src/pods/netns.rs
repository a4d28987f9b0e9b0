//! A pod's network namespace, found through one of its processes and held open.

use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use nix::{
    libc::O_NONBLOCK,
    sys::statfs::{FsType, fstatfs},
};

/// Namespaces as files (include/uapi/linux/magic.h).
const NSFS_MAGIC: FsType = FsType(0x6e73_6673);

/// A network namespace that cannot go away, nor its inode number to another, while this lives.
#[derive(Debug)]
pub struct Netns {
    inode: u32,
    held: File,
}

impl Netns {
    /// Opens a file that stands for a network namespace: `/proc/<pid>/ns/net` or a bind mount of one.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        // A FIFO must not hold the daemon up, and any other file is no namespace.
        let held = File::options().read(true).custom_flags(O_NONBLOCK).open(path)?;
        if fstatfs(&held)?.filesystem_type() != NSFS_MAGIC {
            return Err(std::io::Error::other("this file is no namespace"));
        }
        let inode = u32::try_from(held.metadata()?.ino()).map_err(std::io::Error::other)?;
        Ok(Self { inode, held })
    }

    /// The namespace of the processes at and below cgroup directories: the first that is not the host's, else
    /// the host's, `None` when no process could be looked at.
    #[must_use]
    pub fn of_cgroups(directories: &[PathBuf], proc: &Path, host: u32) -> Option<Self> {
        let mut fallback = None;
        for directory in directories {
            match Self::of_cgroup(directory, proc, host) {
                Some(netns) if netns.inode != host => return Some(netns),
                found => fallback = fallback.or(found),
            }
        }
        fallback
    }

    fn of_cgroup(directory: &Path, proc: &Path, host: u32) -> Option<Self> {
        let pids = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        let mut fallback = None;
        for pid in pids.lines().filter(|pid| *pid != "0") {
            match Self::open(&proc.join(pid).join("ns/net")) {
                Ok(netns) if netns.inode != host => return Some(netns),
                Ok(netns) => fallback = Some(netns),
                Err(_) => {}
            }
        }
        let children: Vec<_> = super::tree::subdirectories(directory).collect();
        let below = Self::of_cgroups(&children, proc, host);
        match below {
            Some(netns) if netns.inode != host => Some(netns),
            found => fallback.or(found),
        }
    }

    /// Another handle of the same namespace.
    pub fn duplicate(&self) -> std::io::Result<Self> {
        Ok(Self { inode: self.inode, held: self.held.try_clone()? })
    }

    /// The host's: that of process 1, in the host's (or a nested node's) pid namespace. Where
    /// process 1 may not be looked at (it holds a capability this process lacks), that of `kthreadd`: kernel
    /// threads stay in the first namespace.
    pub fn host(proc: &Path) -> std::io::Result<Self> {
        match Self::open(&proc.join("1/ns/net")) {
            Ok(netns) => Ok(netns),
            Err(error) => {
                let kthreadd = proc.join("2");
                if fs::read_to_string(kthreadd.join("comm")).is_ok_and(|name| name.trim() == "kthreadd") {
                    return Self::open(&kthreadd.join("ns/net"));
                }
                Err(error)
            }
        }
    }

    /// The open file, to enter the namespace by.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.held
    }

    /// Inode number, as `ls -L -i` and the kernel's `net.ns.inum` tell it.
    #[must_use]
    pub fn inode(&self) -> u32 {
        self.inode
    }
}
