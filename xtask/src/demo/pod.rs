//! A pod as a kubelet leaves it on a node: cgroups, log directories, links to the logs, and containers
//! that run in the pod's network namespace.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    os::unix::{fs::symlink, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::{cri_log::CriLog, interrupt};
use crate::sandbox::{Cgroup, Netns, Process, cgroup2_root};

pub(super) const NAMESPACE: &str = "istio-system";
pub(super) const NAME: &str = "istio-ingressgateway-6d8f9c7b5-x2kqp";

/// Puts itself into the cgroup `$0` names, then becomes the container's program: a socket belongs to
/// the cgroup its maker was in, so the order matters.
const ENTER: &str = r#"echo $$ > "$0" && exec "$@""#;

/// A pod without containers yet. Its containers are dropped before it.
#[derive(Debug)]
pub(super) struct Pod<'a> {
    netns: &'a Netns,
    workdir: &'a Path,
    uid: String,
    cgroup: Cgroup,
}

/// A container that runs. Dropped in this order: the process, then what reads from it, then its cgroup.
#[derive(Debug)]
pub(super) struct Container<'a> {
    process: Process,
    _logs: [CriLog; 2],
    _cgroup: Cgroup,
    netns: &'a Netns,
    name: &'static str,
    log: PathBuf,
}

impl<'a> Pod<'a> {
    /// Makes the pod's cgroup and its place below `workdir`.
    pub(super) fn create(netns: &'a Netns, workdir: &'a Path) -> Result<Self> {
        let uid = uuid()?;
        let cgroup = Cgroup::create(&cgroup2_root()?, &format!("kubepods/burstable/pod{uid}"))?;
        for dir in ["pods", "containers"] {
            let dir = workdir.join(dir);
            fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        Ok(Self { netns, workdir, uid, cgroup })
    }

    /// Starts a container: a cgroup and a log file, named as the kubelet names them, and `command` in them.
    pub(super) fn start(&self, name: &'static str, command: &[&str]) -> Result<Container<'a>> {
        let id = format!("{}{}", uuid()?, uuid()?).replace('-', "");
        let cgroup = Cgroup::create(self.cgroup.path(), &id)?;
        let log = self.log_file(name, &id)?;

        let mut shell = Command::new("sh");
        shell
            .args(["-c", ENTER])
            .arg(cgroup.path().join("cgroup.procs"))
            .args(["ip", "netns", "exec", self.netns.name()])
            .args(command)
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
        Ok(Container { process, _logs: logs, _cgroup: cgroup, netns: self.netns, name, log })
    }

    /// Makes `pods/<ns>_<pod>_<uid>/<container>/` and the link `containers/<pod>_<ns>_<container>-<id>.log`,
    /// which is how a node tells which container an id belongs to.
    fn log_file(&self, container: &str, id: &str) -> Result<PathBuf> {
        let relative = format!("pods/{NAMESPACE}_{NAME}_{}/{container}", self.uid);
        let dir = self.workdir.join(&relative);
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let link = self.workdir.join(format!("containers/{NAME}_{NAMESPACE}_{container}-{id}.log"));
        symlink(format!("../{relative}/0.log"), &link)
            .with_context(|| format!("cannot make {}", link.display()))?;
        Ok(dir.join("0.log"))
    }
}

impl Container<'_> {
    /// Waits until the container accepts connections on `address`.
    pub(super) fn listens(&mut self, address: SocketAddr) -> Result<()> {
        interrupt::wait_for(&format!("{} to listen on {address}", self.name), Duration::from_secs(10), || {
            if let Some(status) = self.process.wait(Duration::ZERO)? {
                let log = fs::read_to_string(&self.log).unwrap_or_default();
                bail!("container {} ended with {status}; its log ends:\n{}", self.name, tail(&log));
            }
            let connected =
                self.netns.enter(|| TcpStream::connect_timeout(&address, Duration::from_secs(1)))?;
            Ok(connected.ok().map(drop))
        })
    }
}

/// The last lines of a log, for an error.
pub(super) fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

fn uuid() -> Result<String> {
    const SOURCE: &str = "/proc/sys/kernel/random/uuid";
    let uuid = fs::read_to_string(SOURCE).with_context(|| format!("cannot read {SOURCE}"))?;
    Ok(uuid.trim().to_owned())
}
