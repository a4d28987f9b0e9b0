//! A running `gt-hc run`, its log, and its commands.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Command, ExitStatus, Output, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use gt_hc::answers::StateBody;
use nix::sys::signal::Signal;
use xtask::sandbox::{Process, eventually};

use crate::http::{self, Answer};

/// For what should come at once, on a machine that is busy.
pub const SOON: Duration = Duration::from_secs(10);

pub const GT_HC: &str = env!("CARGO_BIN_EXE_gt-hc");

/// The server, with its log so far.
pub struct Sidecar {
    process: Process,
    log: Arc<Mutex<Vec<String>>>,
    reading: Arc<AtomicBool>,
    pub address: SocketAddr,
}

/// `gt-hc` with only these variables of the settings.
pub fn command(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    clean(Command::new(GT_HC), arguments, variables)
}

fn clean(mut command: Command, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    for name in [
        "DRAIN_TIMEOUT",
        "LB_BUFFER",
        "POLL_INTERVAL",
        "GT_HC_LISTEN",
        "GT_HC_ENVOY_ADMIN",
        "GT_HC_IGNORE_CLUSTERS",
    ] {
        command.env_remove(name);
    }
    command.args(arguments).envs(variables.iter().copied()).stdin(Stdio::null());
    command
}

impl Sidecar {
    /// Starts on a port that is free, with short times; `variables` go before these.
    pub fn start(envoy: SocketAddr, variables: &[(&str, &str)]) -> Result<Self> {
        Self::start_by(Command::new(GT_HC), envoy, variables)
    }

    /// The same, by a command that runs its arguments' first word elsewhere.
    pub fn start_by(program: Command, envoy: SocketAddr, variables: &[(&str, &str)]) -> Result<Self> {
        let envoy = envoy.to_string();
        let mut all = vec![
            ("GT_HC_LISTEN", "127.0.0.1:0"),
            ("GT_HC_ENVOY_ADMIN", envoy.as_str()),
            ("DRAIN_TIMEOUT", "20"),
            ("LB_BUFFER", "0.5"),
            ("POLL_INTERVAL", "0.1"),
        ];
        all.extend(variables);
        let mut process = Process::start("gt-hc", clean(program, &["run"], &all).stdout(Stdio::piped()))?;
        let stdout = process.child().stdout.take().context("no stdout")?;
        let log = Arc::new(Mutex::new(Vec::new()));
        let reading = Arc::new(AtomicBool::new(true));
        let (written, go_on) = (Arc::clone(&log), Arc::clone(&reading));
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                written.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                while !go_on.load(Ordering::SeqCst) {
                    // For as long as the test's process lives: the pipe stays open, and full.
                    thread::park();
                }
            }
        });
        let mut sidecar = Self { process, log, reading, address: ([127, 0, 0, 1], 0).into() };
        let line = sidecar.wait_for_line("event=listening")?;
        sidecar.address = field(&line, "address").context("no address in the log")?.parse()?;
        Ok(sidecar)
    }

    /// From the next line on nobody reads the log.
    pub fn stop_reading(&self) {
        self.reading.store(false, Ordering::SeqCst);
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// `FROM>TO` and reason of each transition up to the one into the state that is now.
    pub fn transitions(&self) -> Result<Vec<String>> {
        // The log comes through a thread and a pipe, and may be behind the answers.
        let since = self.state()?.since;
        self.wait_for_line(&format!("ts={since} event=transition"))?;
        Ok(self
            .log()
            .iter()
            .filter(|line| line.contains("event=transition"))
            .map(|line| {
                let part = |key| field(line, key).unwrap_or_default();
                format!("{}>{} {}", part("from"), part("to"), part("reason"))
            })
            .collect())
    }

    pub fn wait_for_line(&self, part: &str) -> Result<String> {
        eventually(&format!("{part} in the log"), SOON, || {
            self.log().into_iter().find(|line| line.contains(part))
        })
    }

    pub fn ask(&self, method: &str, path: &str) -> Result<Answer> {
        http::ask(self.address, method, path)
    }

    pub fn state(&self) -> Result<StateBody> {
        let answer = self.ask("GET", "/state")?;
        serde_json::from_str(&answer.body).with_context(|| format!("no state in {:?}", answer.body))
    }

    /// Waits until `/state` shows this state.
    pub fn wait_for(&self, state: &str) -> Result<StateBody> {
        eventually(&format!("the state {state}"), SOON, || {
            self.state().ok().filter(|now| now.state.name() == state)
        })
        .with_context(|| format!("the log: {:#?}", self.log()))
    }

    /// What LB and readiness are told.
    pub fn health(&self) -> Result<(u16, u16)> {
        Ok((self.ask("GET", "/health_check.html")?.status, self.ask("GET", "/health")?.status))
    }

    /// Starts a command that talks to this server.
    pub fn begin(&self, arguments: &[&str]) -> Result<Follower> {
        let listen = self.address.to_string();
        let mut command = command(arguments, &[("GT_HC_LISTEN", &listen)]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Follower { process: Process::start("gt-hc", &mut command)? })
    }

    /// Runs a command that talks to this server; gives exit code, stdout and stderr.
    pub fn run(&self, arguments: &[&str]) -> Result<(i32, String, String)> {
        self.begin(arguments)?.finish()
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Waits for the server's end.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        self.process.wait(SOON)?.context("the server did not end")
    }

    /// Whether the server has ended.
    pub fn ended(&mut self) -> Result<bool> {
        Ok(self.process.wait(Duration::ZERO)?.is_some())
    }
}

/// A command that runs.
pub struct Follower {
    process: Process,
}

impl Follower {
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    pub fn running(&mut self) -> Result<bool> {
        Ok(self.process.wait(Duration::ZERO)?.is_none())
    }

    /// Closes the command's pipes; gives its exit code.
    pub fn finish_unread(mut self) -> Result<i32> {
        drop(self.process.child().stdout.take());
        drop(self.process.child().stderr.take());
        let status = self.process.wait(Duration::from_secs(30))?.context("the command did not end")?;
        status.code().context("ended by a signal")
    }

    pub fn finish(mut self) -> Result<(i32, String, String)> {
        let status = self.process.wait(Duration::from_secs(30))?.context("the command did not end")?;
        let read = |stream: Option<&mut dyn std::io::Read>| -> Result<String> {
            let mut text = String::new();
            stream.context("no pipe")?.read_to_string(&mut text)?;
            Ok(text)
        };
        let child = self.process.child();
        let stdout = read(child.stdout.as_mut().map(|pipe| pipe as _))?;
        let stderr = read(child.stderr.as_mut().map(|pipe| pipe as _))?;
        Ok((status.code().context("ended by a signal")?, stdout, stderr))
    }
}

/// Runs a command that needs no server.
pub fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Output> {
    Ok(command(arguments, variables).output()?)
}

/// The value of `key=value` in a line of the log.
pub fn field(line: &str, key: &str) -> Option<String> {
    line.split(' ').find_map(|part| part.strip_prefix(key)?.strip_prefix('=')).map(str::to_owned)
}

/// Checks `condition` again and again for some time: what must not change, does not.
pub fn stays(what: &str, time: Duration, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        ensure!(condition()?, "{what} did not stay so");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
