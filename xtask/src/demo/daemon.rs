//! gt-daemon itself: built if need be, started, and read.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Error, Result, anyhow, bail};
use nix::sys::signal::Signal;

use super::{client, client::Reply, interrupt, pod, scrape::Scrape};
use crate::{cargo, sandbox::Process};

/// A metric every watched pod has from the start.
const FIRST_SERIES: &str = "gt_connections_opened_total";

/// The daemon's path: the one given, else the release build of this workspace, made now.
pub(super) fn binary(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        if !path.is_file() {
            bail!(
                "--daemon names {}, which is not a file: leave the option out to build one",
                path.display()
            );
        }
        return path.canonicalize().with_context(|| format!("cannot resolve {}", path.display()));
    }
    let build = ["build", "--release", "--package", "gt-daemon"];
    let status = cargo::cargo(&build).status().context("cannot start cargo: install Rust with rustup")?;
    if !status.success() {
        bail!(
            "`cargo {}` ended with {status}: `cargo xtask setup` installs what the build needs",
            build.join(" ")
        );
    }
    Ok(cargo::target_dir().join("release/gt-daemon"))
}

/// The running daemon; SIGTERM and, if that is not heeded, SIGKILL on drop.
#[derive(Debug)]
pub(super) struct Daemon {
    process: Process,
    address: SocketAddr,
    stderr: PathBuf,
}

impl Daemon {
    /// Starts the daemon on the pods below `workdir` and waits until it is ready and watches the pod.
    pub(super) fn start(binary: &Path, attach: Option<&str>, workdir: &Path) -> Result<Self> {
        let address = free_address()?;
        let stderr = workdir.join("gt-daemon.stderr");
        let mut command = Command::new(binary);
        command
            .args(["run", "--log", "warn", "--listen", &address.to_string(), "--pods"])
            .arg(format!("kubelet:{}", workdir.join("pods").display()))
            .args(attach.iter().flat_map(|backend| ["--attach", backend]))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&stderr).with_context(|| format!("cannot make {}", stderr.display()))?)
            .process_group(0);
        let mut daemon = Self { process: Process::start("gt-daemon", &mut command)?, address, stderr };

        let limit = Duration::from_secs(10);
        let ready = interrupt::wait_for("gt-daemon's /readyz to answer 200", limit, || {
            daemon.running()?;
            Ok(daemon.get("/readyz").ok().filter(|reply| reply.status == 200).map(drop))
        });
        ready.map_err(|error| daemon.explain(error))?;
        let watched = interrupt::wait_for("the pod's series in gt-daemon's /metrics", limit, || {
            daemon.running()?;
            let scrape = daemon.scrape()?;
            Ok(scrape.select(FIRST_SERIES, &[("pod", pod::NAME)]).next().map(drop))
        });
        watched.map_err(|error| daemon.explain(error))?;
        Ok(daemon)
    }

    /// Reads `/metrics`.
    pub(super) fn scrape(&self) -> Result<Scrape> {
        let reply = self.get("/metrics")?;
        if reply.status != 200 {
            bail!("gt-daemon answered GET /metrics with {}", reply.status);
        }
        Scrape::parse(&reply.body).context("cannot read gt-daemon's /metrics")
    }

    /// Fails, with the daemon's own words, when it has ended.
    pub(super) fn running(&mut self) -> Result<()> {
        if let Some(status) = self.process.wait(Duration::ZERO)? {
            bail!("gt-daemon ended early with {status}");
        }
        Ok(())
    }

    /// Adds the daemon's own words to an error.
    pub(super) fn explain(&self, error: Error) -> Error {
        let said = fs::read_to_string(&self.stderr).unwrap_or_default();
        if said.trim().is_empty() {
            return error;
        }
        anyhow!("{error:#}\ngt-daemon wrote:\n{}", pod::tail(&said))
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
        let _ended = self.process.wait(Duration::from_secs(2));
    }
}

/// An address nobody listens on just now.
fn free_address() -> Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .context("no free port on 127.0.0.1")
}
