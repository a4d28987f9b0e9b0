//! `cargo xtask bench reading`: what reading inside a pod costs, beside what it replaces, against goals.
//!
//! Owns: the order of rounds. Refuses: to measure gt's reader otherwise than the daemon has it, or what it replaces
//! otherwise than a node does it.

mod container;
mod envoy_clock;
mod figures;
mod gateway;
mod reader;
mod report;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::{
    sys::{
        resource::{UsageWho, getrusage},
        time::TimeValLike as _,
    },
    unistd::geteuid,
};

use super::{daemon::Binaries, document, machine::Machine};
use crate::{
    sandbox::Netns,
    setup::{self, Need},
    stage::{interrupt, workdir::Workdir},
};
use container::Container;
use figures::{ASKED, Asker, Cost, Question, Results, Round, Share, of_looks};
use gateway::{ADMIN, Gateway};
use reader::{Pace, Reader};

/// How the benchmark may be told to differ.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// How often all ways to ask take turns
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Where to write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// End with an error when a goal is missed
    #[arg(long)]
    check: bool,
}

/// Fewer rounds than this show no more than that the command works: docs/benchmarks.md is left as it is.
const ROUNDS: u32 = 5;
const LEAST_ROUNDS: u32 = 3;

/// In a round: how long gt's reader looks, and how often each process is started.
const LOOKS: Duration = Duration::from_secs(5);
const STARTS: u32 = 4;

/// Between two processes: caches are as cold as they are for a look.
const PAUSE: Duration = Duration::from_millis(200);

/// How long each pace is kept; at the slow one it is a look in five seconds or more.
const DRAINING: Duration = Duration::from_secs(20);
const OPEN: Duration = Duration::from_secs(75);

/// Two of the flushes of stats that Envoy makes of its own.
const UNASKED: Duration = Duration::from_secs(10);

/// As the harness asks that gt replaces.
const USUAL: &str = "/stats?filter=downstream_rq_active%7Cupstream_rq_active";

/// Runs the benchmark.
pub(super) fn run(options: &Options) -> Result<()> {
    if !geteuid().is_root() {
        bail!(
            "the benchmark makes a network namespace and a container: run it as root (sudo -E cargo xtask bench reading)"
        );
    }
    setup::ensure(&[Need::Build, Need::Sandbox, Need::Runtime, Need::Demo])?;
    let binaries = Binaries::build()?;
    interrupt::install()?;
    let machine = Machine::look()?;
    println!("bench: {machine}");
    let all = [false, true]
        .into_iter()
        .map(|used| measure(&binaries.read_envoy, options.rounds, used))
        .collect::<Result<Vec<_>>>()?;
    print!("{}", report::table(&all));
    if let Some(file) = &options.json {
        fs::write(file, report::json(&all, &machine))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if options.rounds >= LEAST_ROUNDS {
        let file = document::write("Reading inside pods", "reading", &machine, &report::markdown(&all))?;
        println!("bench: written to {}", file.display());
    }
    let missed: Vec<_> = all.iter().flat_map(Results::missed).collect();
    if options.check && !missed.is_empty() {
        bail!("goals missed:\n- {}", missed.join("\n- "));
    }
    Ok(())
}

/// Everything, on one gateway.
fn measure(program: &Path, rounds: u32, used: bool) -> Result<Results> {
    let workdir = Workdir::create()?;
    let netns = Netns::create(&format!("gt-bench-{}-pod", std::process::id()))?;
    let gateway = Gateway::start(&netns, workdir.path(), used)?;
    let container = Container::start(&netns, workdir.path())?;
    let mut reader = Reader::start(program, &netns, &gateway)?;
    let unasked = unasked(&gateway)?;
    let mut results = Results { used, ..Results::default() };
    for number in 0..=rounds {
        let mut round = Round::default();
        let looks = reader.look(Pace::Draining, LOOKS)?;
        for (question, counters) in [(Question::Gauges, false), (Question::Both, true)] {
            // Where answers take so long that looks are a second apart, all are at counters too.
            let cost = of_looks(&looks, counters);
            round.0.extend(cost.map(|cost| (Asker::Reader, question, cost)));
        }
        let mut processes = vec![Vec::new(); ASKED.len()];
        for _ in 0..STARTS {
            for ((asker, question), costs) in ASKED.into_iter().zip(&mut processes) {
                let command = match asker {
                    Asker::Reader => continue,
                    Asker::Exec => container.exec("/usr/bin/curl"),
                    Asker::Bare => Command::new("curl"),
                };
                let urls = urls(question, reader.paths());
                costs.push(process(command, &urls, &netns, &gateway, unasked)?);
            }
        }
        for ((asker, question), costs) in ASKED.into_iter().zip(processes) {
            round.0.extend(Cost::mean(&costs).map(|cost| (asker, question, cost)));
        }
        // The first warms up.
        if number > 0 {
            println!("bench: clusters {}, round {number} of {rounds}", results.clusters());
            results.rounds.push(round);
        }
    }
    for (pace, length) in [(Pace::Draining, DRAINING), (Pace::Open, OPEN)] {
        interrupt::check()?;
        results.shares.push(Share::of(pace, &reader.look(pace, length)?));
    }
    Ok(results)
}

/// The share of a core that Envoy's main thread uses when nobody asks.
fn unasked(gateway: &Gateway) -> Result<f64> {
    let (began, before) = (Instant::now(), gateway.main_thread().used_us()?);
    interrupt::pause(UNASKED)?;
    Ok((gateway.main_thread().used_us()? - before) / (began.elapsed().as_secs_f64() * 1e6))
}

fn urls(question: Question, paths: &[String]) -> Vec<String> {
    let url = |path: &str| format!("http://127.0.0.1:{ADMIN}{path}");
    let count = if question == Question::Both { 2 } else { 1 };
    match question {
        Question::Usual => vec![url(USUAL)],
        Question::Gauges | Question::Both => paths.iter().take(count).map(|path| url(path)).collect(),
    }
}

/// Starts one process, which asks; the cost is its own, with that of all processes it waited for.
fn process(
    mut command: Command,
    urls: &[String],
    netns: &Netns,
    gateway: &Gateway,
    unasked: f64,
) -> Result<Cost> {
    command.arg("-sf").args(urls).stdin(Stdio::null());
    let (began, envoy, own) = (Instant::now(), gateway.main_thread().used_us()?, children_us()?);
    let output = netns.enter(|| command.output())?.with_context(|| format!("cannot start {command:?}"))?;
    let own = children_us()? - own;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {}", output.status, said.trim());
    ensure!(!output.stdout.is_empty(), "{command:?} was told nothing");
    interrupt::pause(PAUSE)?;
    let wall_us = began.elapsed().as_secs_f64() * 1e6;
    Ok(Cost { own, envoy: gateway.main_thread().used_us()? - envoy - unasked * wall_us })
}

/// Microseconds of CPU time of all processes that were waited for (getrusage(2)).
#[expect(clippy::cast_precision_loss, reason = "2^53 us are centuries")]
pub(super) fn children_us() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("cannot ask what processes used")?;
    Ok((usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64)
}
