//! A pod as a kubelet leaves it on a node: cgroups, log directories, links to the logs, and containers
//! that run in the pod's network namespace.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    os::unix::{fs::symlink, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::Signal;

use super::{cri_log::CriLog, interrupt};
use crate::sandbox::{Cgroup, Netns, Process, cgroup2_root};

/// The pod that a stage with one pod has.
pub const NAMESPACE: &str = "istio-system";
pub const NAME: &str = "istio-ingressgateway-6d8f9c7b5-x2kqp";

/// Puts itself into the cgroup `$0` names, then becomes the container's program: a socket belongs to
/// the cgroup its maker was in, so the order matters.
const ENTER: &str = r#"echo $$ > "$0" && exec "$@""#;

/// A pod without containers yet. Its containers are dropped before it.
#[derive(Debug)]
pub struct Pod {
    netns: Arc<Netns>,
    node: PathBuf,
    namespace: String,
    name: String,
    uid: String,
    cgroup: Cgroup,
}

/// A container that runs. Dropped in this order: the process, then what reads from it, then its cgroup.
#[derive(Debug)]
pub struct Container {
    process: Process,
    _logs: [CriLog; 2],
    _cgroup: Cgroup,
    netns: Arc<Netns>,
    name: String,
    id: String,
    log: PathBuf,
}

impl Pod {
    /// Makes the pod's cgroup and its place below `node`, a directory that stands for a node's `/var/log`.
    pub fn create(netns: &Arc<Netns>, node: &Path, namespace: &str, name: &str) -> Result<Self> {
        let uid = uuid()?;
        let cgroup = Cgroup::create(&cgroup2_root()?, &format!("kubepods/burstable/pod{uid}"))?;
        for dir in ["pods", "containers"] {
            let dir = node.join(dir);
            fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        Ok(Self {
            netns: Arc::clone(netns),
            node: node.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid,
            cgroup,
        })
    }

    /// Starts a container: a cgroup and a log file, named as the kubelet names them, and `command` in them with
    /// `environment`. One of a name that ran before is a restart: its log has the next number.
    pub fn start(&self, name: &str, command: &[&str], environment: &[(&str, &str)]) -> Result<Container> {
        let id = format!("{}{}", uuid()?, uuid()?).replace('-', "");
        let cgroup = Cgroup::create(self.cgroup.path(), &id)?;
        let log = self.log_file(name, &id)?;

        let mut shell = Command::new("sh");
        shell
            .args(["-c", ENTER])
            .arg(cgroup.path().join("cgroup.procs"))
            .args(["ip", "netns", "exec", self.netns.name()])
            .args(command)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut process = Process::start(name, &mut shell)?;
        let child = process.child();
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            bail!("container {name} has no output to read");
        };
        let logs = [CriLog::copy(&log, "stdout", stdout)?, CriLog::copy(&log, "stderr", stderr)?];
        let netns = Arc::clone(&self.netns);
        Ok(Container { process, _logs: logs, _cgroup: cgroup, netns, name: name.to_owned(), id, log })
    }

    /// Its UID.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Removes the pod, whose containers have ended, as a kubelet does: its cgroup and its hold on
    /// the namespace; then the API is told, by `forgotten`; then its logs and the links to them.
    pub fn remove(self, forgotten: impl FnOnce()) -> Result<()> {
        let Self { netns, node, namespace, name, uid, cgroup } = self;
        drop(cgroup);
        drop(netns);
        forgotten();
        let links = node.join("containers");
        let told = || format!("cannot remove the links to the logs of pod {name} in {}", links.display());
        let prefix = format!("{name}_{namespace}_");
        for entry in fs::read_dir(&links).with_context(told)? {
            let entry = entry.with_context(told)?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                fs::remove_file(entry.path()).with_context(told)?;
            }
        }
        let logs = node.join(format!("pods/{namespace}_{name}_{uid}"));
        fs::remove_dir_all(&logs).with_context(|| format!("cannot remove {}", logs.display()))
    }

    /// Makes `pods/<ns>_<pod>_<uid>/<container>/` and the link `containers/<pod>_<ns>_<container>-<id>.log`,
    /// which is how a node tells which container an id belongs to.
    fn log_file(&self, container: &str, id: &str) -> Result<PathBuf> {
        let Self { node, namespace, name, uid, .. } = self;
        let relative = format!("pods/{namespace}_{name}_{uid}/{container}");
        let dir = node.join(&relative);
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let ran_before =
            fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?.count();
        let file = format!("{ran_before}.log");
        let link = node.join(format!("containers/{name}_{namespace}_{container}-{id}.log"));
        symlink(format!("../{relative}/{file}"), &link)
            .with_context(|| format!("cannot make {}", link.display()))?;
        Ok(dir.join(file))
    }
}

impl Container {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The runtime's id of it: 64 hex digits.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The namespace it runs in.
    #[must_use]
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// Waits until the container accepts connections on `address`.
    pub fn listens(&mut self, address: SocketAddr) -> Result<()> {
        interrupt::wait_for(&format!("{} to listen on {address}", self.name), Duration::from_secs(20), || {
            if let Some(status) = self.process.wait(Duration::ZERO)? {
                bail!("container {} ended with {status}; its log ends:\n{}", self.name, self.log_tail());
            }
            let connected =
                self.netns.enter(|| TcpStream::connect_timeout(&address, Duration::from_secs(1)))?;
            Ok(connected.ok().map(drop))
        })
    }

    /// Sends a signal to the container's first process and waits until it has ended.
    pub fn end(&mut self, signal: Signal) -> Result<ExitStatus> {
        self.process.signal(signal)?;
        let ended = self.process.wait(Duration::from_secs(10))?;
        ended.with_context(|| format!("container {} goes on 10 s after {signal}", self.name))
    }

    /// Sends a signal to the container's first process.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Waits until it has ended, at most `limit`; `None` when it goes on. Ends early on a signal to this process.
    pub fn ended(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let until = Instant::now() + limit;
        loop {
            interrupt::check()?;
            let status = self.process.wait(Duration::ZERO)?;
            if status.is_some() || Instant::now() > until {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its log file, in the kubelet's format.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines of its log, for an error.
    #[must_use]
    pub fn log_tail(&self) -> String {
        tail(&fs::read_to_string(&self.log).unwrap_or_default())
    }
}

/// The last lines of a text.
#[must_use]
pub fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

fn uuid() -> Result<String> {
    const SOURCE: &str = "/proc/sys/kernel/random/uuid";
    let uuid = fs::read_to_string(SOURCE).with_context(|| format!("cannot read {SOURCE}"))?;
    Ok(uuid.trim().to_owned())
}
