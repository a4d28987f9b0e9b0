//! `cargo xtask bench scale`: what the daemon takes with many pods and connections open, against goals.
//!
//! Owns: the order of what is measured. Refuses: figures of a daemon whose gauges are not what was opened.

mod figures;
pub(super) mod hold;
mod pods;
mod process;

use std::{fs, path::PathBuf, time::Duration, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use nix::unistd::geteuid;

use super::{
    daemon::{self, Binaries},
    document,
    machine::Machine,
};
use crate::{
    setup::{self, Need},
    stage::{daemon::Daemon, interrupt, scrape::Scrape, workdir::Workdir},
};
use figures::{Checks, Idle, Results, Scraped};
use pods::{NAMESPACE, Pods};
use process::{Kernel, Memory, used};

/// How the benchmark may be told to differ.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// How many pods
    #[arg(long, value_name = "N", default_value_t = PODS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pods: u32,
    /// How many TCP sockets of theirs are open, an even number for each pod
    #[arg(long, value_name = "N", default_value_t = SOCKETS, value_parser = clap::value_parser!(u32).range(2..=130_000))]
    sockets: u32,
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

/// The goals speak of these. With others docs/benchmarks.md is left as it is.
const PODS: u32 = 250;
const SOCKETS: u32 = 100_000;

/// How long nothing happens, alone and with scrapes.
const IDLE: Duration = Duration::from_secs(60);

/// As Prometheus asks.
const SCRAPE_EVERY: Duration = Duration::from_secs(15);

const SCRAPES: usize = 50;
const BETWEEN_SCRAPES: Duration = Duration::from_millis(100);

/// New pods are looked at more often for so long (`UNSETTLED` of the daemon's tracker).
const SETTLING: Duration = Duration::from_secs(30);

/// Runs the benchmark.
pub(super) fn run(options: &Options) -> Result<()> {
    if !geteuid().is_root() {
        bail!(
            "the benchmark makes network namespaces and loads eBPF programs: run it as root (sudo -E cargo xtask bench scale)"
        );
    }
    let Options { pods, sockets, .. } = *options;
    ensure!(
        sockets % (2 * pods) == 0,
        "{sockets} sockets are no even number for each of {pods} pods: give a multiple of {}",
        2 * pods
    );
    setup::ensure(&[Need::Build, Need::Sandbox])?;
    let binaries = Binaries::build()?;
    interrupt::install()?;
    let machine = Machine::look()?;
    println!("bench: {machine}");
    let results = measure(&binaries, options)?;
    print!("{}", figures::markdown(&results));
    if let Some(file) = &options.json {
        fs::write(file, format!("{:#}\n", figures::for_machines(&results, &machine.json())))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if (pods, sockets) == (PODS, SOCKETS) {
        let file = document::write("Scale", "scale", &machine, &figures::markdown(&results))?;
        println!("bench: written to {}", file.display());
    }
    let missed = results.missed();
    if options.check && !missed.is_empty() {
        bail!("goals missed:\n- {}", missed.join("\n- "));
    }
    Ok(())
}

fn measure(binaries: &Binaries, options: &Options) -> Result<Results> {
    let workdir = Workdir::create()?;
    let mut pods = Pods::create(options.pods, workdir.path())?;
    let mut daemon = daemon::start(binaries, &options.attach, pods.file())?;
    interrupt::pause(Duration::from_secs(2))?;
    let before = Memory::of(daemon.id())?;
    let began = Instant::now();
    pods.show()?;
    interrupt::wait_for("gt-daemon to watch all pods", Duration::from_secs(60), || {
        daemon.running()?;
        let watched = active(&daemon.scrape()?, &pods).into_iter().filter(Option::is_some).count();
        Ok((watched == pods.len()).then_some(()))
    })
    .map_err(|error| daemon.explain(error))?;
    pods.open(options.sockets)?;
    println!("bench: {} sockets of {} pods are open", options.sockets, options.pods);
    interrupt::pause(Duration::from_secs(2))?;
    let scraped = scrapes(&daemon)?;
    exact(&daemon, &pods, options)?;
    interrupt::pause(SETTLING.saturating_sub(began.elapsed()))?;
    let idle = Idle { alone: share(&daemon, None)?, scraped: share(&daemon, Some(SCRAPE_EVERY))? };
    exact(&daemon, &pods, options)?;
    let scrape = daemon.scrape()?;
    Ok(Results {
        pods: options.pods,
        sockets: options.sockets,
        before,
        open: Memory::of(daemon.id())?,
        kernel: Kernel::of(daemon.id())?,
        scraped,
        checks: Checks::of(&scrape).context("gt-daemon has compared no namespace with its table yet")?,
        idle,
    })
}

/// Established connections of each pod, as the daemon counts them; `None` where it has no series.
fn active(scrape: &Scrape, pods: &Pods) -> Vec<Option<f64>> {
    let mut sums = vec![None; pods.len()];
    for sample in scrape.select("gt_active_connections", &[("namespace", NAMESPACE)]) {
        if let Some(sum) = pods.number(sample.label("pod")).and_then(|number| sums.get_mut(number)) {
            *sum = Some(sum.unwrap_or(0.0) + sample.value);
        }
    }
    sums
}

/// Fails unless each pod's gauges are what it has opened.
fn exact(daemon: &Daemon, pods: &Pods, options: &Options) -> Result<()> {
    let each = f64::from(options.sockets / options.pods);
    let wrong: Vec<_> = active(&daemon.scrape()?, pods)
        .into_iter()
        .enumerate()
        .filter(|(_, sum)| *sum != Some(each))
        .collect();
    ensure!(
        wrong.is_empty(),
        "each pod has {each} sockets open, and gt-daemon counts otherwise for {} pods, such as number {:?}",
        wrong.len(),
        wrong.first()
    );
    Ok(())
}

fn scrapes(daemon: &Daemon) -> Result<Scraped> {
    let mut text = String::new();
    let mut ms = Vec::with_capacity(SCRAPES);
    for _ in 0..SCRAPES {
        let began = Instant::now();
        text = daemon.metrics()?;
        ms.push(began.elapsed().as_secs_f64() * 1000.0);
        interrupt::pause(BETWEEN_SCRAPES)?;
    }
    Scraped::of(ms, &text).context("nothing was scraped")
}

/// The share of a core, in percent, that the daemon uses while nothing happens but scrapes, if any.
fn share(daemon: &Daemon, scrape_every: Option<Duration>) -> Result<f64> {
    let (began, before) = (Instant::now(), used(daemon.id())?);
    while let Some(left) = IDLE.checked_sub(began.elapsed()) {
        interrupt::pause(scrape_every.unwrap_or(IDLE).min(left))?;
        if scrape_every.is_some() {
            daemon.metrics()?;
        }
    }
    Ok(100.0 * (used(daemon.id())? - before).as_secs_f64() / began.elapsed().as_secs_f64())
}
