//! tcpdump on the pod's interface: the independent witness of what was on the wire.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use xtask::sandbox::{Netns, Process, eventually};

use crate::scene::{DEVICE, POD_V4, POD_V6};

/// RSTs by IPv4 and, where pcap filters know no `tcp[..]`, by IPv6 without extension headers.
const RESETS: &str = "tcp[tcpflags] & tcp-rst != 0 or (ip6 proto 6 and ip6[53] & 4 != 0)";

/// A capture of RSTs on the pod's interface.
pub struct Capture {
    process: Process,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<thread::JoinHandle<()>>,
}

/// RSTs captured, as the pod sees their direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resets {
    pub sent: u64,
    pub received: u64,
}

impl Capture {
    /// Starts tcpdump and waits until it captures.
    pub fn start(pod: &Netns) -> Result<Self> {
        let mut command = pod.command("tcpdump");
        command
            .args(["-i", DEVICE, "-n", "-l", "-q", "--immediate-mode", RESETS])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = Process::start("tcpdump", &mut command)?;
        let stdout = process.child().stdout.take().context("tcpdump's output")?;
        let mut stderr = BufReader::new(process.child().stderr.take().context("tcpdump's messages")?);
        let mut message = String::new();
        while !message.contains("listening on") {
            ensure!(stderr.read_line(&mut message)? > 0, "tcpdump does not capture: {message}");
        }
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let reader = thread::spawn(move || {
            // Kept open, or tcpdump's farewell would meet a closed pipe.
            let _stderr = stderr;
            // Interrupted, tcpdump ends its output with an empty line.
            for line in BufReader::new(stdout).lines().map_while(Result::ok).filter(|line| !line.is_empty()) {
                sink.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        Ok(Self { process, lines, reader: Some(reader) })
    }

    /// What was captured so far.
    pub fn resets(&self) -> Resets {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = lines.iter().filter(|line| from_pod(line)).count() as u64;
        Resets { sent, received: lines.len() as u64 - sent }
    }

    /// Waits until so many were captured, ends the capture, and tells what there was in the end.
    pub fn finish(mut self, expected: Resets) -> Result<Resets> {
        let _compared_by_the_caller =
            eventually("the capture", Duration::from_secs(5), || (self.resets() == expected).then_some(()));
        // One more than expected would come right after.
        thread::sleep(Duration::from_millis(100));
        self.process.signal(Signal::SIGINT)?;
        self.process.wait(Duration::from_secs(5))?.context("tcpdump does not end")?;
        if let Some(reader) = self.reader.take() {
            let _ended = reader.join();
        }
        Ok(self.resets())
    }
}

/// `.. IP 10.78.0.2.80 > 10.78.0.1.9: tcp 0`
fn from_pod(line: &str) -> bool {
    let source = line.split(" > ").next().unwrap_or_default();
    source.contains(&format!(" {POD_V4}.")) || source.contains(&format!(" {POD_V6}."))
}
