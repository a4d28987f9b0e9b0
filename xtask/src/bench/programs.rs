//! The kernel's statistics of gt's programs and of the empty ones beside them.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::daemon::Binaries;
use crate::sandbox::Process;

/// The kernel keeps this much of a program's name (`BPF_OBJ_NAME_LEN`, without the zero).
const NAME: usize = 15;

/// A hook, as `empty_hooks` tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hook {
    pub(super) question: String,
    pub(super) backend: String,
    pub(super) target: String,
    pub(super) program: String,
    pub(super) empty: u32,
}

impl Hook {
    fn parse(value: &Value) -> Option<Self> {
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        Some(Self {
            question: text("question")?,
            backend: text("backend")?,
            target: text("target")?,
            program: text("program")?,
            empty: u32::try_from(value["empty"].as_u64()?).ok()?,
        })
    }
}

/// How often a program ran, and how long in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) count: u64,
    pub(super) ns: u64,
}

impl Run {
    fn since(self, before: Self) -> Self {
        Self { count: self.count.saturating_sub(before.count), ns: self.ns.saturating_sub(before.ns) }
    }

    /// Mean time of a run; none without runs.
    pub(super) fn mean(self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "sums of a few seconds are far below 2^52")]
        let mean = self.ns as f64 / self.count as f64;
        (self.count > 0).then_some(mean)
    }
}

/// A hook's two programs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Both {
    pub(super) gt: Run,
    pub(super) empty: Run,
}

/// All hooks at one time, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading(pub(super) Vec<Both>);

impl Reading {
    /// What was spent between an earlier reading and this one.
    pub(super) fn since(&self, before: &Self) -> Self {
        let both = |(now, before): (&Both, &Both)| Both {
            gt: now.gt.since(before.gt),
            empty: now.empty.since(before.empty),
        };
        Self(self.0.iter().zip(&before.0).map(both).collect())
    }
}

/// The holder of the empty programs; while it lives, the kernel times all programs.
#[derive(Debug)]
pub(super) struct Timed {
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    process: Process,
    hooks: Vec<Hook>,
    gt: Option<(u32, Vec<u32>)>,
}

impl Timed {
    /// Attaches the empty programs.
    pub(super) fn start(binaries: &Binaries, attach: &str) -> Result<Self> {
        let mut command = Command::new(&binaries.empty_hooks);
        command.arg(attach).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = Process::start("empty_hooks", &mut command)?;
        let child = process.child();
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("empty_hooks has no pipes");
        };
        let mut timed =
            Self { stdin: Some(stdin), stdout: BufReader::new(stdout), process, hooks: Vec::new(), gt: None };
        let told = timed.line()?;
        timed.hooks = told
            .as_array()
            .and_then(|hooks| hooks.iter().map(Hook::parse).collect())
            .with_context(|| format!("empty_hooks told no hooks: {told}"))?;
        Ok(timed)
    }

    /// The hooks.
    pub(super) fn hooks(&self) -> &[Hook] {
        &self.hooks
    }

    /// Finds gt's programs among those that the daemon holds.
    pub(super) fn find(&mut self, daemon: u32) -> Result<()> {
        let stdin = self.stdin.as_mut().context("empty_hooks has ended")?;
        stdin.write_all(b"\n").context("cannot ask empty_hooks")?;
        let told = self.line()?;
        let held = runs(daemon)?;
        let programs = self
            .hooks
            .iter()
            .map(|hook| {
                let wanted = hook.program.get(..NAME).unwrap_or(&hook.program);
                held.keys()
                    .copied()
                    .find(|id| told[id.to_string()].as_str() == Some(wanted))
                    .with_context(|| format!("gt-daemon has no program {} on {}", hook.program, hook.target))
            })
            .collect::<Result<_>>()?;
        self.gt = Some((daemon, programs));
        Ok(())
    }

    /// Reads all statistics.
    pub(super) fn read(&self) -> Result<Reading> {
        let (daemon, programs) = self.gt.as_ref().context("gt's programs are not known yet")?;
        let (gt, empty) = (runs(*daemon)?, runs(self.process.id())?);
        let run = |of: &BTreeMap<u32, Run>, id: u32| {
            of.get(&id).copied().with_context(|| format!("program {id} is no longer there"))
        };
        self.hooks
            .iter()
            .zip(programs)
            .map(|(hook, id)| Ok(Both { gt: run(&gt, *id)?, empty: run(&empty, hook.empty)? }))
            .collect::<Result<_>>()
            .map(Reading)
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).context("cannot read from empty_hooks")?;
        serde_json::from_str(&line).context("empty_hooks ended early: see its message above")
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        // It ends when its stdin does.
        self.stdin = None;
        let _ended = self.process.wait(std::time::Duration::from_secs(2));
    }
}

/// Programs that a process holds, by number.
fn runs(process: u32) -> Result<BTreeMap<u32, Run>> {
    let directory = PathBuf::from(format!("/proc/{process}/fdinfo"));
    let entries = fs::read_dir(&directory)
        .with_context(|| format!("cannot read {}: has the process ended?", directory.display()))?;
    let mut runs = BTreeMap::new();
    for entry in entries {
        // A descriptor may be closed meanwhile.
        let Ok(text) = entry.and_then(|entry| fs::read_to_string(entry.path())) else { continue };
        runs.extend(run(&text));
    }
    Ok(runs)
}

/// A program's number and statistics from its descriptor's fdinfo; none for other descriptors.
fn run(fdinfo: &str) -> Option<(u32, Run)> {
    let field = |name: &str| -> Option<u64> {
        fdinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key == name).then(|| value.trim().parse().ok()).flatten()
        })
    };
    let id = u32::try_from(field("prog_id")?).ok()?;
    Some((id, Run { count: field("run_cnt")?, ns: field("run_time_ns")? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises a program's and a link's descriptor, so that a link is not taken for a program without runs.
    #[test]
    fn programs_and_links() {
        let program = "pos:\t0\nprog_type:\t26\nprog_id:\t7\nrun_time_ns:\t900\nrun_cnt:\t3\n";
        assert_eq!(run(program), Some((7, Run { count: 3, ns: 900 })));
        assert_eq!(Run { count: 3, ns: 900 }.mean(), Some(300.0));
        assert_eq!(run("pos:\t0\nlink_type:\traw_tracepoint\nprog_id:\t7\n"), None);
        assert_eq!(run("pos:\t0\n"), None);
        assert_eq!(Run::default().mean(), None);
    }
}
