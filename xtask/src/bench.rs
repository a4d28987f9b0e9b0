//! `cargo xtask bench`: what gt costs, against goals. [`reading`] has its own files, [`latency`], [`rivals`] and [`scale`] too,
//! `hooks` the others.
//!
//! Owns: the order of the rounds of `hooks`. Refuses: absolute figures of hooks in [`document`], which would say more
//! about a machine than about gt; each one is a difference or a ratio of two things in one run.

mod daemon;
mod document;
mod figures;
mod latency;
mod load;
mod machine;
mod programs;
mod reading;
mod report;
mod rivals;
mod scale;
mod stage;

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail};
use nix::unistd::geteuid;

use crate::{
    setup::{self, Need},
    stage::{interrupt, workdir::Workdir},
};
use daemon::Binaries;
use figures::{HookFigure, Pair, Results};
use load::{Ending, Load};
use machine::Machine;
use programs::Timed;
use stage::{Side, Stage};

/// What can be measured.
#[derive(Debug, clap::Subcommand)]
pub enum Bench {
    /// Time each hook beside an empty one, and connections and requests a second with and without gt-daemon
    Hooks(Options),
    /// Compare gt's look at an Envoy with a process that is started in the pod to ask the same
    Reading(reading::Options),
    /// Watch the same resets by tcpdump, bpftrace and a poller, and compare what each takes and sees
    Rivals(rivals::Options),
    /// Open 100,000 connections of 250 pods, and look at memory, scrapes and what the daemon does meanwhile
    Scale(scale::Options),
    /// Hold connections for `scale`
    #[command(hide = true)]
    Hold(scale::hold::Options),
    /// Time the way from an event in the kernel to its line at a console
    Latency(latency::Options),
}

/// How the benchmark may be told to differ.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// How often connections and requests a second are compared; the goal speaks of at least 7 times
    #[arg(long, value_name = "N", default_value_t = PAIRS, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Where to write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// End with an error when a goal is missed
    #[arg(long)]
    check: bool,
    /// How gt-daemon attaches to the kernel: auto, kprobe or btf
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    attach: String,
}

/// Fewer pairs than this show no more than that the command works: docs/benchmarks.md is left as it is.
const PAIRS: u32 = 9;
const LEAST_PAIRS: u32 = 7;

/// Rounds of each kind with each of the two orders of attaching.
const ROUNDS: u32 = 4;

/// How long a round of the hooks' part lasts.
const ROUND: Duration = Duration::from_millis(1500);

/// How long connections are counted with, and without, the daemon.
const HALF: Duration = Duration::from_secs(3);

/// Load that is not counted, so that a half begins with warm caches.
const WARM_UP: Duration = Duration::from_millis(400);

/// Runs a benchmark.
pub fn run(what: &Bench) -> Result<()> {
    match what {
        Bench::Hooks(options) => hooks(options),
        Bench::Reading(options) => reading::run(options),
        Bench::Rivals(options) => rivals::run(options),
        Bench::Scale(options) => scale::run(options),
        Bench::Hold(options) => scale::hold::run(options),
        Bench::Latency(options) => latency::run(options),
    }
}

/// What the benchmarks with a daemon stand on; what stands here first goes first.
#[derive(Debug)]
struct Ground {
    stage: Stage,
    /// After the stage, which has files there.
    _workdir: Workdir,
    binaries: Binaries,
    machine: Machine,
}

impl Ground {
    /// Makes it for the benchmark of this name.
    fn make(name: &str) -> Result<Self> {
        if !geteuid().is_root() {
            bail!(
                "the benchmark makes network namespaces and loads eBPF programs: run it as root (sudo -E cargo xtask bench {name})"
            );
        }
        setup::ensure(&[Need::Build, Need::Sandbox])?;
        let binaries = Binaries::build()?;
        interrupt::install()?;
        let workdir = Workdir::create()?;
        let stage = Stage::create(workdir.path())?;
        let machine = Machine::look()?;
        println!("bench: {machine}");
        Ok(Self { stage, _workdir: workdir, binaries, machine })
    }
}

fn hooks(options: &Options) -> Result<()> {
    let ground = Ground::make("hooks")?;
    let Ground { stage, binaries, machine, .. } = &ground;
    let hooks = time_hooks(stage, binaries, &options.attach)?;
    let rate = |ending| compare(stage, binaries, &options.attach, options.pairs, ending);
    let results = Results { hooks, connections: rate(Ending::Close)?, requests: rate(Ending::Kept)? };
    print!("{}", report::table(&results));
    if let Some(file) = &options.json {
        fs::write(file, report::json(&results, machine))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if options.pairs >= LEAST_PAIRS {
        let file = document::write("Hooks", "hooks", machine, &report::markdown(&results))?;
        println!("bench: written to {}", file.display());
    }
    let missed = results.missed();
    if options.check && !missed.is_empty() {
        bail!("goals missed:\n- {}", missed.join("\n- "));
    }
    Ok(())
}

/// Times every hook beside an empty one, in turns on sockets of watched and of other namespaces. Programs on
/// one hook run one after the other, so half of the rounds have gt's first, half the empty ones.
fn time_hooks(stage: &Stage, binaries: &Binaries, attach: &str) -> Result<Vec<HookFigure>> {
    let mut rounds = Vec::new();
    let mut known = Vec::new();
    for gt_first in [true, false] {
        let (daemon, mut timed);
        if gt_first {
            daemon = daemon::start(binaries, attach, stage.both_ends())?;
            timed = Timed::start(binaries, attach)?;
        } else {
            timed = Timed::start(binaries, attach)?;
            daemon = daemon::start(binaries, attach, stage.both_ends())?;
        }
        timed.find(daemon.id())?;
        stage.until_watched(&daemon)?;
        for round in 0..=ROUNDS {
            for side in [Side::Watched, Side::Unwatched] {
                for ending in [Ending::Close, Ending::Reset] {
                    interrupt::check()?;
                    let before = timed.read()?;
                    let load = Load { length: ROUND, ending };
                    let done = stage.load(side, &load)?;
                    let after = timed.read()?;
                    // The first of each kind warms up.
                    if round > 0 {
                        rounds.push(figures::Round {
                            side,
                            ending,
                            connections: done.count,
                            spent: after.since(&before),
                        });
                    }
                }
            }
        }
        known = timed.hooks().to_vec();
    }
    Ok(figures::hooks(&known, &rounds))
}

/// Counts connections or requests a second with and without the daemon, which watches the pod that serves them.
fn compare(
    stage: &Stage,
    binaries: &Binaries,
    attach: &str,
    pairs: u32,
    ending: Ending,
) -> Result<Vec<Pair>> {
    let what = if ending == Ending::Kept { "requests" } else { "connections" };
    let half = |with: bool| -> Result<f64> {
        interrupt::check()?;
        let daemon = if with {
            let daemon = daemon::start(binaries, attach, stage.server_only())?;
            stage.until_watched(&daemon)?;
            Some(daemon)
        } else {
            None
        };
        stage.load(Side::Watched, &Load { length: WARM_UP, ending })?;
        let done = stage.load(Side::Watched, &Load { length: HALF, ending })?;
        drop(daemon);
        // What detaching leaves to the kernel is not the next half's.
        interrupt::pause(Duration::from_millis(300))?;
        Ok(done.per_second())
    };
    let mut measured = Vec::new();
    for number in 0..=pairs {
        // Turns, so that a slow drift of the machine favours neither.
        let (with, without) = if number % 2 == 0 {
            let without = half(false)?;
            (half(true)?, without)
        } else {
            (half(true)?, half(false)?)
        };
        let pair = Pair { with, without };
        // The first warms up.
        if number > 0 {
            println!(
                "bench: pair {number}: {with:.0} {what}/s with, {without:.0} without, ratio {:.3}",
                pair.ratio()
            );
            measured.push(pair);
        }
    }
    Ok(measured)
}
