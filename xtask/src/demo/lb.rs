//! A real HAProxy in a network namespace of its own, and what it says about its server.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use super::{client, client::Reply, interrupt, pod::tail};
use crate::sandbox::{Netns, Process};

const CONFIG: &str = include_str!("haproxy.cfg");

/// Where clients reach it, inside its namespace.
const FRONTEND: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8000);

/// A line of HAProxy's log and when it arrived here.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) at: Instant,
    pub(super) text: String,
}

impl Line {
    /// HAProxy's own time of day and its words, as far as they matter here.
    pub(super) fn told(&self) -> String {
        let (at, words) = self.text.split_once(' ').unwrap_or_default();
        let words = words.split(", check duration").next().unwrap_or_default();
        format!("{} {words}", at.get(11..26).unwrap_or(at))
    }
}

/// HAProxy, running in the foreground.
#[derive(Debug)]
pub(super) struct LoadBalancer<'a> {
    process: Process,
    netns: &'a Netns,
    log: Receiver<Line>,
    stderr: PathBuf,
}

impl<'a> LoadBalancer<'a> {
    /// Starts HAProxy and waits until a request gets through it to the app.
    pub(super) fn start(netns: &'a Netns, workdir: &Path) -> Result<Self> {
        let config = workdir.join("haproxy.cfg");
        fs::write(&config, CONFIG).with_context(|| format!("cannot write {}", config.display()))?;
        let stderr = workdir.join("haproxy.stderr");
        let mut command = netns.command("haproxy");
        // -db: one process in the foreground, which the guard can end.
        command
            .args(["-db", "-f"])
            .arg(&config)
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&stderr).with_context(|| format!("cannot make {}", stderr.display()))?)
            .process_group(0);
        let mut process = Process::start("haproxy", &mut command)?;
        let stdout = process.child().stdout.take().context("haproxy has no output to read")?;
        let (sender, log) = channel();
        thread::spawn(move || {
            for text in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(Line { at: Instant::now(), text }).is_err() {
                    break;
                }
            }
        });
        let mut lb = Self { process, netns, log, stderr };
        interrupt::wait_for("a first answer through HAProxy", Duration::from_secs(10), || {
            lb.running()?;
            Ok(lb.get("/", Duration::from_secs(2)).ok().filter(|reply| reply.status == 200))
        })?;
        Ok(lb)
    }

    /// A connection to the frontend, made inside the namespace.
    pub(super) fn connect(&self) -> Result<TcpStream> {
        self.netns
            .enter(|| TcpStream::connect_timeout(&FRONTEND, Duration::from_secs(2)))?
            .with_context(|| format!("cannot connect to HAProxy on {FRONTEND}"))
    }

    /// One request through HAProxy on a connection of its own.
    pub(super) fn get(&self, path: &str, limit: Duration) -> Result<Reply> {
        client::request(self.connect()?, "GET", path, limit)
    }

    /// The line in which HAProxy says that it marked its server DOWN, if it has by now.
    pub(super) fn down(&self) -> Option<Line> {
        self.log.try_iter().find(|line| line.text.contains("Server gateway/pod is DOWN"))
    }

    fn running(&mut self) -> Result<()> {
        if let Some(status) = self.process.wait(Duration::ZERO)? {
            let said = fs::read_to_string(&self.stderr).unwrap_or_default();
            bail!("haproxy ended with {status}; its stderr ends:\n{}", tail(&said));
        }
        Ok(())
    }
}
