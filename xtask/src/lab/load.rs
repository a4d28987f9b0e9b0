//! Continuous load by wrk: clients that ask for short answers one after the other, some on connections they keep, some on a
//! new one each time.
//!
//! hey would not do: Go's HTTP client asks again on its own when a connection that it kept is closed without an answer, and
//! hides what is to be shown.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{ChildStdout, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, anyhow, bail};
use nix::sys::signal::Signal;

use super::topology::FRONTEND;
use crate::{
    sandbox::{Netns, Process},
    stage::{clock, envoy::text, interrupt},
};

/// Connections of each kind.
const EACH: usize = 2;

/// By a file, each connection ends with an answer: wrk itself drops what is in flight when it is told to end.
const SCRIPT: &str = include_str!("load.lua");

/// No answer takes as long, and no end of the load.
const LIMIT: Duration = Duration::from_secs(30);

/// Load that goes on until it is ended or dropped.
#[derive(Debug)]
pub(super) struct Load {
    clients: Vec<Clients>,
    stop: PathBuf,
}

/// The clients of one kind.
#[derive(Debug)]
struct Clients {
    wrk: Process,
    reader: JoinHandle<Result<Tally>>,
    resting: Arc<AtomicUsize>,
}

/// What its clients saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) sent: u64,
    pub(super) good: u64,
    /// Answers of 500 and more.
    pub(super) refused: u64,
    /// No connection, or no whole answer.
    pub(super) broken: u64,
    /// Lines about what was not good.
    pub(super) lines: Vec<String>,
}

impl Load {
    /// Starts the clients. `workdir` gets their files.
    pub(super) fn start(netns: &Netns, workdir: &Path) -> Result<Self> {
        let (script, stop) = (workdir.join("load.lua"), workdir.join("load.stop"));
        fs::write(&script, SCRIPT).with_context(|| format!("cannot write {}", script.display()))?;
        // Of the round before.
        let _never_was = fs::remove_file(&stop);
        let clients = ["keep", "close"].map(|kind| Clients::start(netns, kind, &script, &stop));
        Ok(Self { clients: clients.into_iter().collect::<Result<_>>()?, stop })
    }

    /// Ends it when each client has its last answer.
    pub(super) fn end(self) -> Result<Tally> {
        File::create(&self.stop).with_context(|| format!("cannot make {}", self.stop.display()))?;
        let mut sum = Tally::default();
        for clients in self.clients {
            let Tally { sent, good, refused, broken, lines } = clients.end()?;
            sum.sent += sent;
            sum.good += good;
            sum.refused += refused;
            sum.broken += broken;
            sum.lines.extend(lines);
        }
        sum.lines.sort_unstable();
        Ok(sum)
    }
}

impl Clients {
    fn start(netns: &Netns, kind: &'static str, script: &Path, stop: &Path) -> Result<Self> {
        let mut command = netns.command("wrk");
        let (connections, limit) = (EACH.to_string(), format!("{}s", LIMIT.as_secs()));
        // A day: it is ended by a signal.
        command
            .args(["--threads", "1", "--connections", &connections, "--duration", "24h", "--timeout", &limit])
            .args(["--script", text(script)?, &format!("http://{FRONTEND}/"), "--", text(stop)?, kind])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C is for the lab, which ends it.
            .process_group(0);
        let mut wrk = Process::start("wrk", &mut command)?;
        let stdout = wrk.child().stdout.take().context("wrk has no output to read")?;
        let resting = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&resting);
        let reader = thread::spawn(move || read(stdout, kind, &count));
        Ok(Self { wrk, reader, resting })
    }

    fn end(mut self) -> Result<Tally> {
        interrupt::wait_for("the clients of the load to have their last answers", LIMIT, || {
            if let Some(status) = self.wrk.wait(Duration::ZERO)? {
                bail!("wrk ended early with {status}");
            }
            Ok((self.resting.load(Ordering::Relaxed) >= EACH).then_some(()))
        })?;
        self.wrk.signal(Signal::SIGINT)?;
        self.wrk.wait(LIMIT)?.context("wrk does not end after SIGINT")?;
        self.reader.join().map_err(|_panic| anyhow!("the thread that reads from wrk panicked"))?
    }
}

/// Reads what the script says, to its end.
fn read(stdout: ChildStdout, kind: &str, resting: &AtomicUsize) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut ended = false;
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let now = clock::utc(SystemTime::now());
        if line == "rests" {
            resting.fetch_add(1, Ordering::Relaxed);
        }
        ended |= tally.take_in(&line, kind, &now)?;
    }
    if !ended {
        bail!("wrk ended without a word of its script about what it sent");
    }
    Ok(tally)
}

impl Tally {
    /// Takes in a line; whether it is the last.
    fn take_in(&mut self, line: &str, kind: &str, now: &str) -> Result<bool> {
        let words: Vec<_> = line.split(' ').collect();
        match words.as_slice() {
            ["status", status] => {
                let code: u16 = status.parse().with_context(|| format!("wrk told the status {status:?}"))?;
                self.refused += u64::from(code >= 500);
                self.lines.push(format!("{now} GET / http_code={status} connection={kind}\n"));
                Ok(false)
            }
            ["done", numbers @ ..] => {
                let numbers: Vec<u64> = numbers.iter().filter_map(|word| word.parse().ok()).collect();
                let &[asked, answered, refused_connections] = numbers.as_slice() else {
                    bail!("wrk's script ended with {line:?}");
                };
                let unanswered = asked
                    .checked_sub(answered)
                    .with_context(|| format!("more answers than requests: {line:?}"))?;
                self.sent = asked + refused_connections;
                self.good = answered.saturating_sub(self.lines.len() as u64);
                self.broken = unanswered + refused_connections;
                if self.broken > 0 {
                    // wrk does not tell when.
                    self.lines
                        .push(format!("{now} GET / http_code=000 connection={kind} times={}\n", self.broken));
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises what wrk and the script say so that each request is in one count, and one without an answer is not lost.
    #[test]
    fn each_request_counts_once() {
        let mut tally = Tally::default();
        for line in ["Running 1440m test @ http://10.0.0.1:8000/", "status 502", "status 404", "rests"] {
            assert!(!tally.take_in(line, "keep", "T").unwrap(), "{line}");
        }
        assert!(tally.take_in("done 10 9 0", "keep", "T").unwrap());
        assert_eq!((tally.sent, tally.good, tally.refused, tally.broken), (10, 7, 1, 1));
        assert_eq!(tally.lines.len(), 3);
        for wrong in ["done 1 2 0", "done 1", "status ok"] {
            assert!(Tally::default().take_in(wrong, "keep", "T").is_err(), "{wrong}");
        }
    }
}
