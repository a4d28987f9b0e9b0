//! A real HAProxy on loopback with one server that it checks, and all ways to ask it.

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use xtask::sandbox::Process;

/// The one server, as the LB names it.
pub const SERVER: &str = "igw/node-1";

/// Ends when it is dropped.
pub struct HaProxy {
    _process: Process,
    dir: TempDir,
    http: u16,
    tcp: u16,
}

impl HaProxy {
    /// Starts it, and waits until it answers; it checks `checked` every 100 ms, and two failures are DOWN.
    pub fn start(checked: SocketAddr) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let (http, tcp) = (free_port()?, free_port()?);
        let socket = dir.path().join("haproxy.sock");
        let config = format!(
            "global
    stats socket {} mode 600 level operator
    stats socket ipv4@127.0.0.1:{tcp} level user
defaults
    mode http
    timeout connect 1s
    timeout client 5s
    timeout server 5s
frontend stats
    bind 127.0.0.1:{http}
    stats enable
    stats uri /stats
    stats auth admin:secret
    http-request use-service prometheus-exporter if {{ path /metrics }}
backend igw
    option httpchk GET /
    server node-1 {checked} check inter 100ms fall 2 rise 1
    server node-2 127.0.0.2:1
",
            socket.display()
        );
        let file = dir.path().join("haproxy.cfg");
        std::fs::write(&file, config)?;
        let mut command = Command::new("haproxy");
        command
            .arg("-db")
            .arg("-f")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = Process::start("haproxy", &mut command)?;
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", http)).is_err() {
            ensure!(begun.elapsed() < Duration::from_secs(10), "HAProxy does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self { _process: process, dir, http, tcp })
    }

    /// All ways, as `--lb` names them.
    pub fn ways(&self) -> [String; 4] {
        let Self { http, tcp, .. } = self;
        [
            format!("unix:{}", self.socket().display()),
            format!("tcp:127.0.0.1:{tcp}"),
            format!("http://admin:secret@127.0.0.1:{http}/stats;csv"),
            format!("http://127.0.0.1:{http}/metrics"),
        ]
    }

    /// The statistics without the password.
    pub fn shut_door(&self) -> String {
        format!("http://127.0.0.1:{}/stats;csv", self.http)
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("haproxy.sock")
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port on 127.0.0.1")?;
    Ok(listener.local_addr()?.port())
}
