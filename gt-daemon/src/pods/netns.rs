//! A pod's network namespace, found through one of its processes and held open.

use std::{
    fs::{self, File},
    io::{Error, ErrorKind},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
    sync::Arc,
};

use nix::{
    libc::O_NONBLOCK,
    sys::statfs::{FsType, fstatfs},
};

/// Namespaces as files (include/uapi/linux/magic.h).
const NSFS_MAGIC: FsType = FsType(0x6e73_6673);

/// A network namespace that cannot go away, nor its inode number to another, while this or another handle of it lives.
#[derive(Debug)]
pub struct Netns {
    inode: u32,
    /// Of all namespaces: numbers are unique on it.
    device: u64,
    held: Arc<File>,
}

/// Why the namespace of a pod's process cannot be told.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot look at the network namespace of process {pid}: {cause}; gt must run as root with CAP_SYS_PTRACE, in \
     the host's pid namespace (hostPID), with files to open left"
)]
pub struct ProcessError {
    pid: String,
    cause: Error,
}

impl Netns {
    /// Opens a file that stands for a network namespace: `/proc/<pid>/ns/net` or a bind mount of one.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        // A FIFO must not hold the daemon up, and any other file is no namespace.
        let held = File::options().read(true).custom_flags(O_NONBLOCK).open(path)?;
        if fstatfs(&held)?.filesystem_type() != NSFS_MAGIC {
            return Err(Error::other("this file is no namespace"));
        }
        let metadata = held.metadata()?;
        let inode = u32::try_from(metadata.ino()).map_err(Error::other)?;
        Ok(Self { inode, device: metadata.dev(), held: Arc::new(held) })
    }

    /// Whether this is what a path leads to.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        fs::metadata(path)
            .is_ok_and(|there| (there.dev(), there.ino()) == (self.device, u64::from(self.inode)))
    }

    /// The namespace of the processes in some cgroup directories: `known` (an inode number) if one of them is in
    /// it, else the first that is not the host's, else the host's; `None` when no process is there. An error when
    /// there are processes and none could be looked at.
    pub fn of_processes<'a>(
        directories: impl IntoIterator<Item = &'a Path>,
        proc: &Path,
        host: u32,
        known: Option<u32>,
    ) -> Result<Option<Self>, ProcessError> {
        let mut others = None;
        let mut hosts = None;
        let mut failed = None;
        for directory in directories {
            let pids = processes(directory);
            // A process of a namespace outside of gt's own has no number here.
            for pid in pids.iter().filter(|pid| *pid != "0") {
                match Self::open(&proc.join(pid).join("ns/net")) {
                    // The number may have gone to a stranger between the reading and the opening.
                    Ok(netns) if netns.inode == host => hosts = Some(netns),
                    Ok(netns) if known.is_some_and(|known| known != netns.inode) && others.is_some() => {}
                    Ok(netns) if processes(directory).contains(pid) => {
                        // A process may make namespaces of its own: the pod's is the one that was there before.
                        if known.is_none_or(|known| known == netns.inode) {
                            return Ok(Some(netns));
                        }
                        others = Some(netns);
                    }
                    // It has ended.
                    Ok(_) => {}
                    Err(cause) if has_ended(&cause) => {}
                    Err(cause) => failed = Some(ProcessError { pid: pid.clone(), cause }),
                }
            }
        }
        match (others.or(hosts), failed) {
            (None, Some(failed)) => Err(failed),
            (found, _) => Ok(found),
        }
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

    /// The open file, shared: the namespace stays for as long as anybody keeps it.
    #[must_use]
    pub fn shared(&self) -> Arc<File> {
        Arc::clone(&self.held)
    }

    /// Inode number, as `ls -L -i` and the kernel's `net.ns.inum` tell it.
    #[must_use]
    pub fn inode(&self) -> u32 {
        self.inode
    }
}

/// The numbers of the processes in a cgroup; none where it has just gone. A threaded cgroup lists its threads only
/// (Documentation/admin-guide/cgroup-v2.rst): their namespaces are looked at like those of processes.
fn processes(directory: &Path) -> Vec<String> {
    let read = |file| fs::read_to_string(directory.join(file));
    let text = read("cgroup.procs").or_else(|_| read("cgroup.threads")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Whether a process has just ended: its directory in `/proc` is gone, or says so (ESRCH).
fn has_ended(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn cgroup(root: &Path, name: &str, pids: &str) -> std::path::PathBuf {
        let directory = root.join(name);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("cgroup.procs"), pids).unwrap();
        directory
    }

    /// Exercises cgroups without processes, with processes that ended and with one that lives, so that only what
    /// could be looked at counts.
    #[test]
    fn a_process_that_lives_tells() {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path().join("proc");
        fs::create_dir_all(proc.join("7/ns")).unwrap();
        symlink("/proc/self/ns/net", proc.join("7/ns/net")).unwrap();
        let own = Netns::open(Path::new("/proc/self/ns/net")).unwrap().inode();
        let ended = cgroup(dir.path(), "ended", "0\n5\n6\n");
        let lives = cgroup(dir.path(), "lives", "5\n7\n");
        let empty = cgroup(dir.path(), "empty", "");

        let found =
            |directories: &[&Path], host| Netns::of_processes(directories.to_vec(), &proc, host, None);
        assert!(found(&[&empty, &ended, &dir.path().join("gone")], 1).unwrap().is_none());
        assert_eq!(found(&[&ended, &lives], 1).unwrap().unwrap().inode(), own);
        // The host's is told apart by its number, and is the last choice.
        assert_eq!(found(&[&lives, &empty], own).unwrap().unwrap().inode(), own);
    }

    /// Exercises a pod with a process in a namespace of its own making, so that the known one stays for as long as
    /// anybody is in it.
    #[test]
    fn the_known_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path().join("proc");
        let file = |name: &str| std::path::PathBuf::from("/proc/self/ns").join(name);
        // Any two namespaces will do.
        for (pid, namespace) in [("7", "uts"), ("8", "net")] {
            fs::create_dir_all(proc.join(pid).join("ns")).unwrap();
            symlink(file(namespace), proc.join(pid).join("ns/net")).unwrap();
        }
        let [made, own] = ["uts", "net"].map(|name| Netns::open(&file(name)).unwrap().inode());
        let directory = cgroup(dir.path(), "pod", "7\n8\n");
        let found = |host, known| {
            Netns::of_processes([directory.as_path()], &proc, host, known).unwrap().unwrap().inode()
        };
        assert_eq!(found(1, None), made);
        assert_eq!((found(1, Some(own)), found(1, Some(made))), (own, made));
        // Nobody is in the known one any more.
        assert_eq!((found(1, Some(2)), found(made, Some(2)), found(made, Some(own))), (made, own, own));
    }

    /// Exercises paths to this namespace, to another kind of one, to a file and to nothing.
    #[test]
    fn what_a_path_leads_to() {
        let own = Netns::open(Path::new("/proc/self/ns/net")).unwrap();
        assert!(own.is_at(Path::new("/proc/thread-self/ns/net")));
        for other in ["/proc/self/ns/uts", "/proc/self/status", "/nonexistent"] {
            assert!(!own.is_at(Path::new(other)), "{other}");
        }
    }

    /// Exercises a process that cannot be looked at, so that its pod is not silently without a namespace.
    #[test]
    fn a_process_that_cannot_be_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path().join("proc");
        fs::create_dir_all(proc.join("7/ns")).unwrap();
        fs::write(proc.join("7/ns/net"), "").unwrap();
        let directory = cgroup(dir.path(), "pod", "7\n");
        let error = Netns::of_processes([directory.as_path()], &proc, 1, None).unwrap_err().to_string();
        assert!(error.contains("process 7") && error.contains("CAP_SYS_PTRACE"), "{error}");
    }

    /// Exercises a threaded cgroup, whose list of processes cannot be read.
    #[test]
    fn a_threaded_cgroup() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("cgroup.procs")).unwrap();
        fs::write(dir.path().join("cgroup.threads"), "12\n13\n").unwrap();
        assert_eq!(processes(dir.path()), ["12", "13"]);
    }
}
