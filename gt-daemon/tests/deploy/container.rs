//! The daemon with the rights, the files and the settings that the DaemonSet gives it, and nothing else; then with each of
//! them taken away. The lab's daemons run in the same container.
//!
//! The pods come from the kubelet's directories, since there is no API here.

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use gt_daemon::kernel::capability;
use nix::{sys::signal::Signal, unistd::geteuid};
use xtask::{
    deploy::container,
    sandbox::{Process, eventually},
    stage::client,
};

use crate::{Case, daemon_set, without, without_kubectl};

pub fn cases() -> Vec<Case> {
    let no_root = (!geteuid().is_root()).then(|| "not root: mounts and bpf() need it".to_owned());
    let skip = no_root.or_else(|| without("setpriv")).or_else(without_kubectl);
    vec![
        Case::new("container::is_ready", skip.as_ref(), is_ready),
        Case::new("container::capabilities", skip.as_ref(), capabilities),
        Case::new("container::mounts", skip.as_ref(), mounts),
    ]
}

/// The daemon in its container.
struct Contained {
    process: Process,
    address: SocketAddr,
    stderr: PathBuf,
    _directory: tempfile::TempDir,
}

/// Starts it as the DaemonSet says, without some capabilities (`SYS_ADMIN`) and some mounts (their targets).
fn start(missing: &[&str]) -> anyhow::Result<Contained> {
    let daemon_set = daemon_set("base")?;
    let directory = tempfile::tempdir()?;
    let stderr = directory.path().join("stderr");
    let root = directory.path().join("root");
    fs::create_dir(&root)?;
    let mut mounts = container::mounts(&daemon_set, directory.path())?;
    mounts.retain(|mount| !missing.iter().any(|target| mount.target == Path::new(target)));
    let binary = Path::new(env!("CARGO_BIN_EXE_gt-daemon"));
    let mut command = container::command(&daemon_set, &root, binary, &mounts, missing);
    let (_, container) = container::parts(&daemon_set);
    let arguments = container["args"].as_array().into_iter().flatten();
    command.args(arguments.filter_map(serde_json::Value::as_str)).env("NODE_NAME", "a-node");
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    command.env("GT_LISTEN", address.to_string()).env("GT_PODS", "kubelet").env("GT_LOCAL", "off");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&stderr)?);
    let process = Process::start("gt-daemon in its container", &mut command)?;
    Ok(Contained { process, address, stderr, _directory: directory })
}

impl Contained {
    /// What it answers at `/readyz`, once it says something else than that it has not looked yet; or how it ended.
    fn outcome(&mut self) -> anyhow::Result<Outcome> {
        eventually("gt-daemon to be ready, or to say why not", Duration::from_secs(30), || {
            if let Ok(Some(status)) = self.process.wait(Duration::ZERO) {
                return Some(Outcome::Ended(status.code(), self.said()));
            }
            let stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).ok()?;
            let reply = client::request(stream, "GET", "/readyz", Duration::from_secs(5)).ok()?;
            match reply.status {
                200 => Some(Outcome::Ready),
                _ if reply.body.contains("yet") => None,
                _ => Some(Outcome::NotReady(format!("{}{}", reply.body, self.said()))),
            }
        })
        .with_context(|| self.said())
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let _gone_already = self.process.signal(Signal::SIGTERM);
        let _ended = self.process.wait(Duration::from_secs(3));
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Ready,
    /// It runs; what `/readyz` and the log say.
    NotReady(String),
    /// The exit code, and what it wrote.
    Ended(Option<i32>, String),
}

impl Outcome {
    /// How it fared in a word, and what it said.
    fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Ready => ("ready", ""),
            Self::NotReady(said) => ("not ready", said),
            Self::Ended(Some(1), said) => ("ended", said),
            Self::Ended(_, said) => ("ended by something else", said),
        }
    }
}

/// Without what is missing the daemon fares so, and says this.
fn fares(missing: &[&str], expected: &str, words: &[&str]) -> anyhow::Result<()> {
    let outcome = start(missing)?.outcome()?;
    let (fared, said) = outcome.parts();
    ensure!(fared == expected, "without {missing:?}: {fared}, not {expected}: {said}");
    for word in words {
        ensure!(said.contains(word), "without {missing:?}: no {word:?} in: {said}");
    }
    Ok(())
}

/// Exercises the whole, so that nothing that the daemon needs is missing in the DaemonSet.
fn is_ready() -> anyhow::Result<()> {
    fares(&[], "ready", &[])
}

/// Exercises each capability by its absence, so that none is granted for nothing, and the daemon says what it misses.
fn capabilities() -> anyhow::Result<()> {
    // CAP_SYS_ADMIN stands in for these two, so it has to go with them.
    fares(&["BPF", "SYS_ADMIN"], "ended", &["CAP_BPF"])?;
    fares(&["PERFMON", "SYS_ADMIN"], "ended", &["CAP_PERFMON"])?;
    fares(&["SYS_ADMIN"], "not ready", &["CAP_SYS_ADMIN"])?;
    fares(&["SYS_PTRACE"], "ended", &["CAP_SYS_PTRACE"])?;
    fares(&["NET_ADMIN"], "not ready", &["CAP_NET_ADMIN"])?;
    ensure!(capability::ALL.len() == 5, "a capability has come or gone: try its absence here");
    Ok(())
}

/// Exercises each mount by its absence, so that none is there for nothing. That of `/var/log/containers` tells containers
/// apart where the host has cgroup v2 alone, and is missed in no other way.
fn mounts() -> anyhow::Result<()> {
    fares(&["/host/sys/fs/cgroup"], "ended", &["/host/sys/fs/cgroup", "--cgroup-root"])?;
    fares(&["/sys/kernel/btf"], "ended", &["/sys/kernel/btf/vmlinux"])?;
    fares(&["/var/log/pods"], "ended", &["/var/log/pods"])?;
    fares(&["/var/lib/gt"], "ended", &["/var/lib/gt/drains", "--record"])
}
