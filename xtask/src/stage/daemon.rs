//! gt-daemon itself: started, and read.

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
use crate::{
    deploy::container::{self, Mount},
    sandbox::Process,
};

/// A metric every watched pod has from the start.
const FIRST_SERIES: &str = "gt_connections_opened_total";

/// The authorities of certificates that the host trusts.
const AUTHORITIES: &str = "/etc/ssl/certs";

/// The running daemon; SIGTERM and, if that is not heeded, SIGKILL on drop.
#[derive(Debug)]
pub struct Daemon {
    process: Process,
    address: SocketAddr,
    socket: PathBuf,
    stderr: PathBuf,
}

impl Daemon {
    /// Starts the daemon with these arguments of `run` beside `--listen`, and waits until it is ready. What it writes goes
    /// into a file in `workdir`.
    pub fn start(binary: &Path, arguments: &[&str], workdir: &Path) -> Result<Self> {
        Self::begin(Command::new(binary), arguments, workdir)
    }

    /// The same in the container that the DaemonSet makes: with its capabilities, a root that cannot be written to, and `var_log`
    /// as the node's `/var/log`. It sees `var_log` and `others` at their own places as well, since arguments name files there.
    pub fn start_on_node(
        binary: &Path,
        arguments: &[&str],
        var_log: &Path,
        others: &[&Path],
    ) -> Result<Self> {
        let daemon_set = container::daemon_set()?;
        let mut mounts = container::mounts(&daemon_set, &var_log.join("volumes"))?;
        for (name, mount) in [("pods", "/var/log/pods"), ("containers", "/var/log/containers")] {
            let source = var_log.join(name);
            fs::create_dir_all(&source).with_context(|| format!("cannot make {}", source.display()))?;
            mounts
                .iter_mut()
                .filter(|known| known.target == Path::new(mount))
                .for_each(|known| known.source.clone_from(&source));
        }
        let own_place =
            |path: &Path| Mount { source: path.to_owned(), target: path.to_owned(), writable: true };
        mounts.extend(others.iter().chain([&var_log]).map(|path| own_place(path)));
        // The image has no authorities. A service account brings its cluster's; the stand-in's kubeconfig names none, and the
        // client then wants the system's, also for plain HTTP.
        mounts.push(Mount { writable: false, ..own_place(Path::new(AUTHORITIES)) });
        let root = var_log.join("root");
        fs::create_dir_all(&root).with_context(|| format!("cannot make {}", root.display()))?;
        let command = container::command(&daemon_set, &root, binary, &mounts, &[]);
        Self::begin(command, arguments, var_log)
    }

    fn begin(mut command: Command, arguments: &[&str], workdir: &Path) -> Result<Self> {
        let address = free_address()?;
        let stderr = workdir.join("gt-daemon.stderr");
        let socket = workdir.join("gt.sock");
        command
            .args(["run", "--listen", &address.to_string(), "--local", "off", "--socket"])
            .arg(&socket)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&stderr).with_context(|| format!("cannot make {}", stderr.display()))?)
            .process_group(0);
        let mut daemon =
            Self { process: Process::start("gt-daemon", &mut command)?, address, socket, stderr };
        let ready = interrupt::wait_for("gt-daemon's /readyz to answer 200", Duration::from_secs(20), || {
            daemon.running()?;
            Ok(daemon.get("/readyz").ok().filter(|reply| reply.status == 200).map(drop))
        });
        ready.map_err(|error| daemon.explain(error))?;
        Ok(daemon)
    }

    /// Waits until it watches the pod of this name.
    pub fn watches(&mut self, pod: &str) -> Result<()> {
        let watched = interrupt::wait_for(
            &format!("pod {pod}'s series in gt-daemon's /metrics"),
            Duration::from_secs(10),
            || {
                self.running()?;
                let scrape = self.scrape()?;
                Ok(scrape.select(FIRST_SERIES, &[("pod", pod)]).next().map(drop))
            },
        );
        watched.map_err(|error| self.explain(error))
    }

    /// Waits until it has read the health sidecar and the Envoy of the pod of this name.
    pub fn reads(&mut self, pod: &str) -> Result<()> {
        let what = format!("gt-daemon to read inside pod {pod}");
        let read = interrupt::wait_for(&what, Duration::from_secs(20), || {
            self.running()?;
            let scrape = self.scrape()?;
            let up = |source| {
                let labels = [("pod", pod), ("source", source)];
                scrape.select("gt_pod_source_up", &labels).any(|series| series.value > 0.0)
            };
            Ok((up("hc") && up("envoy")).then_some(()))
        });
        read.map_err(|error| self.explain(error))
    }

    /// The file with what it writes.
    #[must_use]
    pub fn stderr(&self) -> &Path {
        &self.stderr
    }

    /// Where it answers.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where consoles reach it.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Reads `/metrics`.
    pub fn scrape(&self) -> Result<Scrape> {
        Scrape::parse(&self.metrics()?).context("cannot read gt-daemon's /metrics")
    }

    /// The text of `/metrics`.
    pub fn metrics(&self) -> Result<String> {
        let reply = self.get("/metrics")?;
        if reply.status != 200 {
            bail!("gt-daemon answered GET /metrics with {}", reply.status);
        }
        Ok(reply.body)
    }

    /// Fails when it has ended.
    pub fn running(&mut self) -> Result<()> {
        if let Some(status) = self.process.wait(Duration::ZERO)? {
            bail!("gt-daemon ended early with {status}");
        }
        Ok(())
    }

    /// Adds the daemon's own words to an error.
    #[must_use]
    pub fn explain(&self, error: Error) -> Error {
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
        let _ended = self.process.wait(Duration::from_secs(3));
    }
}

/// An address nobody listens on just now.
pub(super) fn free_address() -> Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .context("no free port on 127.0.0.1")
}
