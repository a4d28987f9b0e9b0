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

use super::gateway::{ADMIN, Gateway};
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

/// What a look took, in microseconds of CPU time, and how long it was from the end of the look before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    pub(super) counters: bool,
    pub(super) reader_us: f64,
    pub(super) envoy_us: f64,
    pub(super) wall_us: f64,
}

impl Look {
    fn parse(value: &Value) -> Option<Self> {
        Some(Self {
            counters: value["counters"].as_bool()?,
            reader_us: value["reader_us"].as_f64()?,
            envoy_us: value["envoy_us"].as_f64()?,
            wall_us: value["wall_us"].as_f64()?,
        })
    }
}

/// The process, ended on drop.
#[derive(Debug)]
pub(super) struct Reader {
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    process: Process,
    paths: Vec<String>,
}

impl Reader {
    /// Starts it. It enters the namespace itself, as the daemon does.
    pub(super) fn start(program: &Path, netns: &Netns, gateway: &Gateway) -> Result<Self> {
        let mut command = Command::new(program);
        command
            .arg(netns.path())
            .args([ADMIN.to_string(), gateway.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0);
        let mut process = Process::start("read_envoy", &mut command)?;
        let child = process.child();
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("read_envoy has no pipes");
        };
        let mut reader =
            Self { stdin: Some(stdin), stdout: BufReader::new(stdout), process, paths: Vec::new() };
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
        let told = self.line()?;
        told.as_array()
            .and_then(|looks| looks.iter().map(Look::parse).collect())
            .filter(|looks: &Vec<_>| !looks.is_empty())
            .with_context(|| format!("read_envoy told of no looks: {told}"))
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
