//! `cargo xtask lab`: drains of real pods between a real load balancer and real gateways, with gt as the probe and HAProxy,
//! Envoy, tcpdump and the clients as judges.
//!
//! Owns: which plays there are, and what becomes of them. Refuses: to call a round good in which any two witnesses
//! disagree.

mod alerts;
mod api_pod;
mod artifacts;
mod clients;
mod deletion;
mod gateway;
mod hc_word;
mod judge;
mod lb_word;
mod load;
mod parity;
mod plan;
mod record;
mod replay;
mod round;
mod sampler;
mod scene;
mod story;
mod table;
mod topology;
mod worker;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use nix::unistd::geteuid;
use serde_json::{Value, json};

use crate::{
    artifacts as build,
    deploy::container,
    dist::unpack::unpack,
    setup::{self, Need},
    stage::{interrupt, workdir::Workdir},
};
use plan::{Mode, Play, Which, Wish};
use scene::Scene;
use story::{Story, write};

/// What is played, and with what.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The scenario
    scenario: Which,
    /// Only in this mode; s1 is always current; s2, fault and killed are improved; s3 and s4 are played in both
    #[arg(long)]
    mode: Option<Mode>,
    /// How long the long requests take; 20 in s3 and s4, else 60; less with --short and --repeat
    #[arg(long, value_parser = clap::value_parser!(u64).range(2..=600))]
    seconds: Option<u64>,
    /// How many rounds of each play; with more than one, times are those of --short
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: Option<u16>,
    /// HTTP/1.1 between load balancer and gateways; so it is by default
    #[arg(long)]
    http1: bool,
    /// HTTP/2 between load balancer and gateways; with --http1 both, one after the other
    #[arg(long)]
    http2: bool,
    /// Health checks and drains ten times as fast as the runbook has them, and s1 and s2 three times
    #[arg(long)]
    short: bool,
    /// Write what all witnesses saw of each round to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// gt-daemon to run, instead of building one
    #[arg(long, value_name = "FILE", requires = "hc")]
    daemon: Option<PathBuf>,
    /// The image of gt-daemon to run, as cargo xtask dist makes it, instead of building gt-daemon
    #[arg(long, value_name = "FILE", requires = "hc", conflicts_with = "daemon")]
    image: Option<PathBuf>,
    /// gt-hc to run, instead of building one; with --daemon or --image
    #[arg(long, value_name = "FILE")]
    hc: Option<PathBuf>,
}

/// The programs under test and the gateway.
#[derive(Debug)]
struct Programs {
    daemon: PathBuf,
    hc: PathBuf,
    envoy: PathBuf,
    /// Where the daemon lies when it came out of an image.
    _unpacked: Option<Workdir>,
}

/// Plays what was asked for; an error when any round was not as it should be.
pub fn run(options: &Options) -> Result<()> {
    let plays = Wish {
        which: options.scenario,
        mode: options.mode,
        seconds: options.seconds,
        repeat: options.repeat.map(usize::from),
        http1: options.http1,
        http2: options.http2,
        short: options.short,
    }
    .plays()?;
    if !geteuid().is_root() {
        bail!(
            "the lab makes network namespaces and cgroups and loads eBPF programs: run it as root (sudo -E cargo xtask lab)"
        );
    }
    let programs = programs(options)?;
    // Up to here a signal may end the process as it likes: nothing is there to be cleaned up.
    interrupt::install()?;

    let directory = artifacts::directory();
    let mut score = Score::default();
    for play in &plays {
        rounds(play, &programs, &directory, &mut score)?;
    }
    if let Some(file) = &options.json {
        let text = format!("{:#}\n", Value::Array(score.values));
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let Score { good, failures, .. } = score;
    write(&format!("\nartifacts: {}\n", directory.display()));
    for (name, why) in &failures {
        write(&format!("\n---- {name} ----\n{why}\n"));
    }
    let result = if failures.is_empty() { "ok" } else { "FAILED" };
    write(&format!("\ntest result: {result}. {good} passed; {} failed; 0 ignored\n", failures.len()));
    if !failures.is_empty() {
        bail!("{} of {} rounds are not as they should be", failures.len(), good + failures.len());
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Score {
    good: usize,
    /// The names of bad rounds, and why they are bad.
    failures: Vec<(String, String)>,
    values: Vec<Value>,
}

/// The rounds of a play, all on one stage; a round that cannot be played ends them.
fn rounds(play: &Play, programs: &Programs, directory: &Path, score: &mut Score) -> Result<()> {
    let name = |round: usize| format!("{}::{round}", play.name());
    let mut scene = match Scene::start(play, programs) {
        Ok(scene) => scene,
        Err(error) => {
            interrupt::check()?;
            return fail(score, play, &name(1), &format!("{error:#}"));
        }
    };
    for round in 1..=play.repeat {
        let directory = directory.join(format!("{}_{round}", play.name()));
        artifacts::make(&directory)?;
        let story = Story::begin(&play.name(), directory.join("run.log"), play.planned());
        story.tell(&format!("round {round} of {}", play.repeat));
        let played = round::play(&mut scene, play, programs, &directory, &story);
        drop(story);
        interrupt::check()?;
        let mut ended = match played {
            Ok(ended) => ended,
            Err(error) => {
                scene.keep_words(&directory)?;
                return fail(score, play, &name(round), &format!("{:#}", scene.explain(error)));
            }
        };
        ended.disagreements.extend(replay::disagreements(&programs.daemon, &directory, &ended.record)?);
        let mut text = table::table(&ended);
        if !ended.disagreements.is_empty() {
            text.push_str(&table::evidence(&ended.record));
        }
        write(&format!("{play}, round {round} of {}\n{text}", play.repeat));
        artifacts::append(&directory.join("table.txt"), &text)?;
        let value = table::value(play, round, &ended);
        artifacts::append(&directory.join("record.json"), &format!("{value:#}\n"))?;
        score.values.push(value);
        if ended.disagreements.is_empty() {
            write(&format!("test {} ... ok\n", name(round)));
            score.good += 1;
        } else {
            score.failures.push((name(round), ended.disagreements.join("\n")));
            write(&format!("test {} ... FAILED\n", name(round)));
        }
    }
    Ok(())
}

fn fail(score: &mut Score, play: &Play, name: &str, why: &str) -> Result<()> {
    score.values.push(json!({ "play": play.name(), "error": why }));
    write(&format!("{why}\ntest {name} ... FAILED\n"));
    score.failures.push((name.to_owned(), why.to_owned()));
    Ok(())
}

/// Finds or builds what is played with.
fn programs(options: &Options) -> Result<Programs> {
    const NEEDS: [Need; 3] = [Need::Sandbox, Need::Demo, Need::Alerts];
    let resolve =
        |path: &Path| path.canonicalize().with_context(|| format!("cannot find {}", path.display()));
    let mut unpacked = None;
    let (daemon, hc) = match (&options.daemon, &options.image, &options.hc) {
        (Some(daemon), _, Some(hc)) => {
            setup::ensure(&NEEDS)?;
            (resolve(daemon)?, resolve(hc)?)
        }
        (None, Some(image), Some(hc)) => {
            setup::ensure(&NEEDS)?;
            let workdir = Workdir::create()?;
            let daemon = out_of(&resolve(image)?, workdir.path())?;
            unpacked = Some(workdir);
            (daemon, resolve(hc)?)
        }
        (None, None, None) => {
            setup::ensure(&[NEEDS.as_slice(), &[Need::Build]].concat())?;
            let built = build::release(&["gt-daemon", "gt-hc"])?;
            (built.join("gt-daemon"), built.join("gt-hc"))
        }
        _ => bail!("--hc goes with --daemon or --image, and each of these with --hc: give both, or neither"),
    };
    Ok(Programs { daemon, hc, envoy: setup::envoy::envoy()?, _unpacked: unpacked })
}

/// The daemon of an image, which must be all that is in it, and what the DaemonSet starts.
fn out_of(image: &Path, into: &Path) -> Result<PathBuf> {
    let unpacked = unpack(image, into)?;
    let (files, daemon_set) = (unpacked.files()?, container::daemon_set()?);
    let (_, container) = container::parts(&daemon_set);
    let started = container["command"][0].as_str().unwrap_or_default();
    if unpacked.command.first().is_none_or(|entry| entry != started) || files != [started] {
        bail!(
            "the image {} starts {:?} and has {files:?}: the DaemonSet starts {started}, and there should be nothing else",
            image.display(),
            unpacked.command
        );
    }
    Ok(unpacked.root.join(started.trim_start_matches('/')))
}
