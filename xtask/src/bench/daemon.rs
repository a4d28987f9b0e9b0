//! Release builds of gt-daemon and of the holder of empty programs; the daemon, started and read.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::Signal;

use crate::{
    cargo,
    demo::{client, client::Reply, interrupt, scrape::Scrape},
    sandbox::Process,
};

/// What is measured and what measures.
#[derive(Debug)]
pub(super) struct Binaries {
    pub(super) daemon: PathBuf,
    pub(super) empty_hooks: PathBuf,
}

impl Binaries {
    /// Builds both.
    pub(super) fn build() -> Result<Self> {
        let build = [
            "build",
            "--release",
            "--package",
            "gt-daemon",
            "--bin",
            "gt-daemon",
            "--example",
            "empty_hooks",
        ];
        let status = cargo::cargo(&build).status().context("cannot start cargo: install Rust with rustup")?;
        if !status.success() {
            bail!("`cargo {}` ended with {status}: see the compiler's messages above", build.join(" "));
        }
        let release = cargo::target_dir().join("release");
        Ok(Self { daemon: release.join("gt-daemon"), empty_hooks: release.join("examples/empty_hooks") })
    }
}

/// The running daemon, stopped on drop.
#[derive(Debug)]
pub(super) struct Daemon {
    process: Process,
    address: SocketAddr,
}

impl Daemon {
    /// Starts the daemon on the pods of a file and waits until it is ready.
    pub(super) fn start(binaries: &Binaries, attach: &str, pods: &Path) -> Result<Self> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .context("no free port on 127.0.0.1")?;
        let mut command = Command::new(&binaries.daemon);
        command
            .args(["run", "--log", "warn", "--attach", attach, "--listen", &address.to_string(), "--pods"])
            .arg(format!("static:{}", pods.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0);
        let mut daemon = Self { process: Process::start("gt-daemon", &mut command)?, address };
        interrupt::wait_for("gt-daemon's /readyz to answer 200", Duration::from_secs(20), || {
            if let Some(status) = daemon.process.wait(Duration::ZERO)? {
                bail!("gt-daemon ended early with {status}: see its messages above");
            }
            Ok(daemon.get("/readyz").ok().filter(|reply| reply.status == 200).map(drop))
        })?;
        Ok(daemon)
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Reads `/metrics`.
    pub(super) fn scrape(&self) -> Result<Scrape> {
        Scrape::parse(&self.get("/metrics")?.body).context("cannot read gt-daemon's /metrics")
    }

    fn get(&self, path: &str) -> Result<Reply> {
        let stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(2))
            .with_context(|| format!("cannot connect to gt-daemon on {}", self.address))?;
        client::request(stream, "GET", path, Duration::from_secs(5))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _gone_already = self.process.signal(Signal::SIGTERM);
        // Whatever is left after this is killed by the process's own guard.
        let _ended = self.process.wait(Duration::from_secs(3));
    }
}
