//! A real HAProxy in a network namespace of its own, and what it says about its servers and their sessions.

mod config;
mod line;
mod log;

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    os::unix::{net::UnixStream, process::CommandExt as _},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

pub use config::{Config, EXPORTER};
pub use line::{Line, Session};
pub use log::Log;

use super::{
    client::{self, Exchange, Reply},
    interrupt,
    pod::tail,
};
use crate::sandbox::{Netns, Process};

/// Where clients reach it where nothing else is said: inside its namespace.
const FRONTEND: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8000);

const BACKEND: &str = "gateway";

/// The name of the server of a stage with one pod.
pub const SERVER: &str = "pod";

/// HAProxy, running in the foreground.
#[derive(Debug)]
pub struct LoadBalancer {
    process: Process,
    netns: Arc<Netns>,
    listen: SocketAddr,
    log: Log,
    stderr: PathBuf,
    socket: PathBuf,
}

impl LoadBalancer {
    /// Starts HAProxy and waits until it finds its servers UP. `workdir` gets its files.
    pub fn start(netns: &Arc<Netns>, workdir: &Path, config: &Config) -> Result<Self> {
        let mut lb = Self::launch(netns, workdir, config)?;
        for (server, _) in &config.servers {
            // The first check has been made, that is; before it a server counts as UP.
            lb.wait_for(server, |checked| checked.is_up() && checked.is_checked)?;
        }
        Ok(lb)
    }

    /// Starts HAProxy, whose servers need not be there yet.
    pub fn launch(netns: &Arc<Netns>, workdir: &Path, config: &Config) -> Result<Self> {
        let (file, socket) = (workdir.join("haproxy.cfg"), workdir.join("haproxy.sock"));
        let log_socket = workdir.join("haproxy.log.sock");
        let log = Log::listen(&log_socket)?;
        let text = config.text(&socket, &log_socket);
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let stderr = workdir.join("haproxy.stderr");
        let mut command = netns.command("haproxy");
        // -db: one process in the foreground, which the guard can end.
        command
            .args(["-db", "-f"])
            .arg(&file)
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&stderr).with_context(|| format!("cannot make {}", stderr.display()))?)
            .process_group(0);
        let process = Process::start("haproxy", &mut command)?;
        Ok(Self { process, netns: Arc::clone(netns), listen: config.listen, log, stderr, socket })
    }

    /// A connection to the frontend, made inside the namespace.
    pub fn connect(&self) -> Result<TcpStream> {
        client::connect(&self.netns, self.listen).context("HAProxy does not take connections")
    }

    /// One request through HAProxy on a connection of its own; each silence of the answer may last `limit`.
    pub fn get(&self, path: &str, limit: Duration) -> Result<Reply> {
        self.begin(path, limit)?.finish()
    }

    /// The same, whose answer is read later.
    pub fn begin(&self, path: &str, limit: Duration) -> Result<Exchange> {
        Exchange::begin(self.connect()?, "GET", path, limit)
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The line in which HAProxy says that it marked its server DOWN, if it has by now.
    #[must_use]
    pub fn down(&self) -> Option<Line> {
        let words = format!("Server {BACKEND}/{SERVER} is DOWN");
        self.log.after(0).into_iter().find(|line| line.text.contains(&words))
    }

    /// Waits until HAProxy's view of a server is as asked for.
    pub fn wait_for(&mut self, server: &str, fits: impl Fn(&Checked) -> bool) -> Result<()> {
        let mut last = None;
        let waited = interrupt::wait_for(
            &format!("HAProxy's view of server {server}"),
            Duration::from_secs(20),
            || {
                if let Some(status) = self.process.wait(Duration::ZERO)? {
                    let said = fs::read_to_string(&self.stderr).unwrap_or_default();
                    bail!("haproxy ended with {status}; its stderr ends:\n{}", tail(&said));
                }
                // It makes its socket when it has read its configuration.
                last = self.checked(server).ok();
                Ok(last.as_ref().is_some_and(&fits).then_some(()))
            },
        );
        waited.with_context(|| format!("HAProxy's last word: {last:?}"))
    }

    /// What HAProxy's statistics say of a server.
    pub fn checked(&self, server: &str) -> Result<Checked> {
        let csv = self.command("show stat")?;
        let mut lines = csv.lines();
        let header: Vec<_> =
            lines.next().context("no statistics")?.trim_start_matches("# ").split(',').collect();
        let column = |name: &str| {
            header.iter().position(|column| *column == name).with_context(|| format!("no column {name}"))
        };
        let (backend, name, status, checks) =
            (column("pxname")?, column("svname")?, column("status")?, column("check_duration")?);
        let row = lines
            .map(|line| line.split(',').collect::<Vec<_>>())
            .find(|row| row.get(backend) == Some(&BACKEND) && row.get(name) == Some(&server))
            .with_context(|| format!("no server {server}"))?;
        let field = |at: usize| row.get(at).copied().unwrap_or_default();
        Ok(Checked { status: field(status).to_owned(), is_checked: !field(checks).is_empty() })
    }

    /// Sends a command to HAProxy's own socket and reads the answer.
    pub fn command(&self, command: &str) -> Result<String> {
        command_on(&self.socket, command)
    }

    /// Its own socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

/// Sends a command to the socket of a HAProxy and reads the answer.
pub fn command_on(socket: &Path, command: &str) -> Result<String> {
    let told = || format!("cannot ask HAProxy on {} for {command:?}", socket.display());
    let mut stream = UnixStream::connect(socket).with_context(told)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(format!("{command}\n").as_bytes()).with_context(told)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).with_context(told)?;
    Ok(answer)
}

/// What HAProxy knows of a server by its health checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// `UP`, `UP 1/2`, `DOWN`, ..
    pub status: String,
    is_checked: bool,
}

impl Checked {
    /// Whether it serves and no check has failed since it began to.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.status == "UP"
    }

    /// Whether it gets no requests.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.status.starts_with("DOWN")
    }
}
