//! Network namespaces, veth pairs, cgroups and child processes that are gone when their guard is dropped.
//!
//! Owns: whatever it made. Refuses: to touch a namespace, cgroup or process it did not make.

use std::{
    collections::BTreeMap,
    env, fs, io,
    os::{fd::AsFd, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::{
    sched::{CloneFlags, setns},
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Runs a command to its end; an error carries the command line and what it wrote to stderr.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| {
        format!(
            "cannot start {command:?}: is the program installed? `cargo xtask setup` installs what gt needs"
        )
    })?;
    if !output.status.success() {
        bail!("{command:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs in a process group of its own: a terminal's Ctrl-C would end it half-way, and leave a namespace that
/// nobody owns.
fn ip(args: &[&str]) -> Result<()> {
    run(Command::new("ip").args(args).process_group(0)).map(drop)
}

/// A named network namespace (`ip netns`), deleted on drop.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// Makes the namespace and brings its loopback device up.
    pub fn create(name: &str) -> Result<Self> {
        ip(&["netns", "add", name])?;
        let netns = Self { name: name.to_owned() };
        ip(&["-n", name, "link", "set", "lo", "up"])?;
        Ok(netns)
    }

    /// The namespace's name, as `ip netns` shows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that holds the namespace open.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// A command that will run inside the namespace.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs `work` on a thread of its own inside the namespace and gives its result back; sockets made
    /// there stay in the namespace after the thread has ended.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        enter(&self.path(), work)
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        if let Err(error) = ip(&["netns", "delete", &self.name]) {
            eprintln!("left behind: network namespace {}: {error:#}", self.name);
        }
    }
}

/// The same in the network namespace of this file, whoever made it.
pub fn enter<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> Result<T> {
    let file = fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    thread::scope(|scope| {
        scope
            .spawn(move || {
                setns(file.as_fd(), CloneFlags::CLONE_NEWNET).with_context(|| {
                    format!("cannot enter network namespace {}: root is needed", path.display())
                })?;
                Ok(work())
            })
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// One end of a veth pair: its namespace, its device name and its addresses (`10.0.0.1/24`, `fd00::1/64`).
#[derive(Debug)]
pub struct End<'a> {
    pub netns: &'a Netns,
    pub device: &'a str,
    pub addresses: &'a [&'a str],
}

/// Joins two namespaces by a veth pair that goes with the first of them. IPv6 addresses are usable at
/// once (no duplicate address detection).
pub fn veth(a: &End<'_>, b: &End<'_>) -> Result<()> {
    ip(&[
        "-n",
        a.netns.name(),
        "link",
        "add",
        a.device,
        "type",
        "veth",
        "peer",
        "name",
        b.device,
        "netns",
        b.netns.name(),
    ])?;
    for end in [a, b] {
        for address in end.addresses {
            let mut args = vec!["-n", end.netns.name(), "address", "add", address, "dev", end.device];
            if address.contains(':') {
                args.push("nodad");
            }
            ip(&args)?;
        }
        ip(&["-n", end.netns.name(), "link", "set", end.device, "up"])?;
    }
    Ok(())
}

/// Makes a bridge in a namespace, which goes with it.
pub fn bridge(netns: &Netns, device: &str) -> Result<()> {
    ip(&["-n", netns.name(), "link", "add", device, "type", "bridge"])?;
    ip(&["-n", netns.name(), "link", "set", device, "up"])
}

/// Makes a device a port of a bridge in the same namespace.
pub fn enslave(netns: &Netns, device: &str, bridge: &str) -> Result<()> {
    ip(&["-n", netns.name(), "link", "set", device, "master", bridge])
}

/// Takes a device off its bridge.
pub fn release(netns: &Netns, device: &str) -> Result<()> {
    ip(&["-n", netns.name(), "link", "set", device, "nomaster"])
}

/// Removes a device, and the other end of its veth pair with it.
pub fn remove_device(netns: &Netns, device: &str) -> Result<()> {
    ip(&["-n", netns.name(), "link", "delete", device])
}

/// Gives a device a hardware address, such as `02:00:00:00:00:01`.
pub fn hardware_address(netns: &Netns, device: &str, address: &str) -> Result<()> {
    ip(&["-n", netns.name(), "link", "set", device, "address", address])
}

/// Where this machine's cgroup v2 tree is mounted: the unified root, or the v2 tree of a hybrid host.
pub fn cgroup2_root() -> Result<PathBuf> {
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .iter()
        .map(PathBuf::from)
        .find(|root| root.join("cgroup.controllers").exists())
        .context("no cgroup v2 tree at /sys/fs/cgroup or /sys/fs/cgroup/unified: mount one with `mount -t cgroup2 none /sys/fs/cgroup`")
}

/// The cgroups this process made, each with the number of guards that stand on it: pods share the parents
/// of their cgroups, and the last guard of a parent removes it, in whatever order they go.
static MADE: Mutex<BTreeMap<PathBuf, usize>> = Mutex::new(BTreeMap::new());

/// A cgroup v2 directory below [`cgroup2_root`], removed on drop together with the parents made for it
/// that no other guard stands on; processes still inside are killed first.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    ours: Vec<PathBuf>,
}

impl Cgroup {
    /// Makes `relative` (for example `kubepods/burstable/pod<uid>/<container id>`) and missing parents.
    pub fn create(root: &Path, relative: &str) -> Result<Self> {
        let mut cgroup = Self { path: root.to_path_buf(), ours: Vec::new() };
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        for part in relative.split('/').filter(|part| !part.is_empty()) {
            cgroup.path.push(part);
            if let Some(guards) = made.get_mut(&cgroup.path) {
                *guards += 1;
            } else if cgroup.path.exists() {
                continue;
            } else {
                fs::create_dir(&cgroup.path).with_context(|| {
                    format!("cannot make cgroup {}: root is needed", cgroup.path.display())
                })?;
                made.insert(cgroup.path.clone(), 1);
            }
            cgroup.ours.push(cgroup.path.clone());
        }
        Ok(cgroup)
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves a process into the cgroup.
    pub fn add(&self, pid: u32) -> Result<()> {
        fs::write(self.path.join("cgroup.procs"), pid.to_string())
            .with_context(|| format!("cannot move process {pid} into {}", self.path.display()))
    }

    fn pids(path: &Path) -> Vec<i32> {
        fs::read_to_string(path.join("cgroup.procs"))
            .unwrap_or_default()
            .lines()
            .filter_map(|line| line.parse().ok())
            .collect()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Held to the end, so that no other guard takes a parent for its own while it goes.
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        for path in self.ours.iter().rev() {
            if let Some(guards) = made.get_mut(path)
                && *guards > 1
            {
                *guards -= 1;
                continue;
            }
            made.remove(path);
            if let Err(error) = remove_cgroup(path) {
                eprintln!("left behind: {error:#}");
            }
        }
    }
}

/// Kills what is inside and removes the directory; one with child cgroups is somebody else's by now.
fn remove_cgroup(path: &Path) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(3);
    while let Err(error) = fs::remove_dir(path) {
        if error.kind() == io::ErrorKind::NotFound {
            break;
        }
        let pids = Cgroup::pids(path);
        for pid in &pids {
            let _gone_already = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        let has_children = fs::read_dir(path)
            .is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(|entry| entry.path().is_dir())));
        if has_children || Instant::now() > deadline {
            bail!("cgroup {}: {error}", path.display());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// A child process that is killed and waited for on drop.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
}

impl Process {
    /// Starts the command.
    pub fn start(name: &str, command: &mut Command) -> Result<Self> {
        let child = command.spawn().with_context(|| {
            format!("cannot start {name} ({command:?}): `cargo xtask setup` installs what gt needs")
        })?;
        Ok(Self { name: name.to_owned(), child })
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).context("process id out of range")?;
        kill(Pid::from_raw(pid), signal).with_context(|| format!("cannot send {signal} to {}", self.name))
    }

    /// Waits until the process has ended, at most `limit`; `None` when it has not.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() > deadline {
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let _gone_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Whether this machine is a guest of `cargo xtask vm-test`, whose processors are emulated.
#[must_use]
pub fn is_emulated() -> bool {
    env::var("GT_ENVIRONMENT").is_ok_and(|environment| environment.starts_with("vm"))
}

/// Asks `check` until it gives a value, at most `limit`, and on an emulated machine that long times eight, since it is about that
/// much slower; the error names what was waited for.
pub fn eventually<T>(what: &str, limit: Duration, mut check: impl FnMut() -> Option<T>) -> Result<T> {
    let limit = limit * if is_emulated() { 8 } else { 1 };
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = check() {
            return Ok(value);
        }
        if Instant::now() > deadline {
            bail!("waited {} s for {what}, in vain", limit.as_secs_f32());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    /// Exercises two pods with common parents so that neither order of their end leaves a cgroup behind.
    #[test]
    fn shared_parents_go_with_the_last_guard() {
        let root = env::temp_dir().join(format!("gt-sandbox-{}", std::process::id()));
        fs::create_dir(&root).unwrap();
        let first = Cgroup::create(&root, "kubepods/burstable/pod1/c1").unwrap();
        let second = Cgroup::create(&root, "kubepods/burstable/pod2/c2").unwrap();
        drop(first);
        assert!(!root.join("kubepods/burstable/pod1").exists());
        assert!(second.path().exists());
        drop(second);
        assert!(!root.join("kubepods").exists());
        fs::remove_dir(&root).unwrap();
    }

    /// Exercises a child that another made so that it stays, and nobody waits for it.
    #[test]
    fn a_cgroup_with_foreign_children_is_left_at_once() {
        let root = env::temp_dir().join(format!("gt-sandbox-foreign-{}", std::process::id()));
        fs::create_dir(&root).unwrap();
        let cgroup = Cgroup::create(&root, "kubepods").unwrap();
        fs::create_dir(cgroup.path().join("foreign")).unwrap();
        let started = Instant::now();
        drop(cgroup);
        assert!(started.elapsed() < Duration::from_secs(1));
        fs::remove_dir(root.join("kubepods/foreign")).unwrap();
        fs::remove_dir_all(&root).unwrap();
    }
}
