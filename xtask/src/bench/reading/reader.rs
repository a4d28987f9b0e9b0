//! The process that has gt's reader: `gt-daemon/examples/read_envoy.rs`, which says what is spoken with it.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::{
    envoy_clock::{EnvoyClock, Reading, used_between},
    gateway::{ADMIN, Gateway, MainThread},
};
use crate::sandbox::{Netns, Process};

/// How often a pod is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    Draining,
    Open,
}

impl Pace {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::Open => "open",
        }
    }
}

/// What a look took, in microseconds of CPU time, and how long it was from the end of the look before. Envoy's part
/// is of its main thread, from just before the question to just after the answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    pub(super) counters: bool,
    pub(super) reader_us: f64,
    pub(super) envoy_us: f64,
    pub(super) wall_us: f64,
}

impl Look {
    fn parse(value: &Value, readings: &[Reading]) -> Result<Self> {
        let number =
            |name: &str| value[name].as_f64().with_context(|| format!("no {name} in a look: {value}"));
        let instant =
            |name: &str| value[name].as_u64().with_context(|| format!("no {name} in a look: {value}"));
        Ok(Self {
            counters: value["counters"].as_bool().context("a look tells not what it was at")?,
            reader_us: number("reader_us")?,
            envoy_us: used_between(readings, instant("begun_ns")?, instant("ended_ns")?)?,
            wall_us: number("wall_us")?,
        })
    }
}

/// The process, ended on drop.
#[derive(Debug)]
pub(super) struct Reader {
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    process: Process,
    envoy: MainThread,
    paths: Vec<String>,
}

impl Reader {
    /// Starts it. It enters the namespace itself, as the daemon does.
    pub(super) fn start(program: &Path, netns: &Netns, gateway: &Gateway) -> Result<Self> {
        let mut command = Command::new(program);
        command
            .arg(netns.path())
            .arg(ADMIN.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0);
        let mut process = Process::start("read_envoy", &mut command)?;
        let child = process.child();
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("read_envoy has no pipes");
        };
        let (stdin, stdout) = (Some(stdin), BufReader::new(stdout));
        let mut reader = Self { stdin, stdout, process, envoy: gateway.main_thread(), paths: Vec::new() };
        let told = reader.line()?;
        reader.paths = told
            .as_array()
            .and_then(|paths| paths.iter().map(|path| path.as_str().map(str::to_owned)).collect())
            .filter(|paths: &Vec<_>| paths.len() == 2)
            .with_context(|| format!("read_envoy told no paths: {told}"))?;
        Ok(reader)
    }

    /// What it asks for: gauges, then counters.
    pub(super) fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Looks for a while.
    pub(super) fn look(&mut self, pace: Pace, length: Duration) -> Result<Vec<Look>> {
        let stdin = self.stdin.as_mut().context("read_envoy has ended")?;
        writeln!(stdin, "{} {}", pace.name(), length.as_secs()).context("cannot ask read_envoy")?;
        let clock = EnvoyClock::start(self.envoy);
        let told = self.line()?;
        let readings = clock.stop()?;
        let looks = told
            .as_array()
            .filter(|looks| !looks.is_empty())
            .with_context(|| format!("read_envoy told of no looks: {told}"))?;
        looks.iter().map(|look| Look::parse(look, &readings)).collect()
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).context("cannot read from read_envoy")?;
        serde_json::from_str(&line).context("read_envoy ended early: see its message above")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It ends when its stdin does.
        self.stdin = None;
        let _ended = self.process.wait(Duration::from_secs(2));
    }
}
