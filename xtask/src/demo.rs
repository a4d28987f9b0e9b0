//! `cargo xtask demo`: a real load balancer cuts a real request, and gt says so.
//!
//! Owns: the order of events and what is told about them. Refuses: to tell anything that was not
//! measured in this run; numbers that contradict each other end it with an error.

mod binary;
mod findings;
pub mod health;
mod stage;
mod story;

use std::{
    path::PathBuf,
    sync::mpsc::{self, TryRecvError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use nix::unistd::geteuid;

use crate::{
    setup::{self, Need},
    stage::{
        counts::Counts,
        daemon::Daemon,
        interrupt,
        lb::{self, LoadBalancer},
        network::Network,
        pod,
        workdir::Workdir,
    },
};
use findings::{Observed, judge};
use stage::Stage;
use story::{measure, tell};

/// How long the request that gets cut would have taken.
const ASKED: Duration = Duration::from_secs(8);

/// How the demo may be told to differ.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// gt-daemon to run, instead of building one
    #[arg(long, value_name = "FILE")]
    daemon: Option<PathBuf>,
    /// How gt-daemon attaches to the kernel: auto, kprobe or btf
    #[arg(long, value_name = "BACKEND")]
    attach: Option<String>,
}

/// Runs the demo; an error when it did not show what it is there to show.
pub fn run(options: &Options) -> Result<()> {
    if !geteuid().is_root() {
        bail!(
            "the demo makes network namespaces and cgroups and loads eBPF programs: run it as root (sudo -E cargo xtask demo)"
        );
    }
    let needs: &[Need] = if options.daemon.is_some() {
        &[Need::Sandbox, Need::Demo]
    } else {
        &[Need::Build, Need::Sandbox, Need::Demo]
    };
    setup::ensure(needs)?;
    let envoy = setup::envoy::envoy()?;
    let daemon = binary::daemon(options.daemon.as_deref())?;

    // Up to here a signal may end the process as it likes: nothing is there to be cleaned up.
    interrupt::install()?;
    let workdir = Workdir::create()?;
    let network = Network::create("gt-demo")?;
    story::title();
    let stage = Stage::start(&envoy, &network.pod, workdir.path())?;
    tell!("pod {}/{} is up: Envoy :8080 -> app, health sidecar :18180", pod::NAMESPACE, pod::NAME);
    let inter = Duration::from_millis(500);
    let lb =
        LoadBalancer::start(&network.lb, workdir.path(), &lb::Config { inter, ..lb::Config::default() })?;
    tell!("HAProxy is up and asks the sidecar twice a second (fall 2, on-marked-down shutdown-sessions)");
    let pods = format!("kubelet:{}", workdir.path().join("pods").display());
    let mut arguments = vec!["--log", "warn", "--pods", &pods];
    arguments.extend(options.attach.iter().flat_map(|backend| ["--attach", backend]));
    let mut daemon = Daemon::start(&daemon, &arguments, workdir.path())?;
    daemon.watches(pod::NAME)?;
    tell!("gt-daemon is ready and watches the pod; nobody tells it about HAProxy or the requests");

    play(&stage, &lb, &mut daemon).map_err(|error| daemon.explain(error))
}

/// The events themselves, on a stage that is set.
fn play(stage: &Stage, lb: &LoadBalancer, daemon: &mut Daemon) -> Result<()> {
    ordinary(lb, daemon)?;

    tell!("a client asks for /sleep?seconds={}", ASKED.as_secs());
    let asked_at = Instant::now();
    let path = format!("/sleep?seconds={}", ASKED.as_secs());
    let exchange = lb.begin(&path, ASKED * 3)?;
    let (sender, answer) = mpsc::channel();
    thread::spawn(move || {
        let reply = exchange.finish();
        // Nobody listens any more when the demo was interrupted.
        let _gone = sender.send((reply, asked_at.elapsed()));
    });
    interrupt::pause(Duration::from_secs(1))?;
    let before = Counts::of(&daemon.scrape()?, pod::NAME);

    stage.flip()?;
    tell!("the sidecar says 503 while that request is in flight: the mistake gt exists to prove");
    let (reply, ended) = interrupt::wait_for("the client's answer", ASKED * 2, || match answer.try_recv() {
        Ok(answer) => Ok(Some(answer)),
        Err(TryRecvError::Empty) => Ok(None),
        Err(TryRecvError::Disconnected) => bail!("the client ended without an answer"),
    })?;
    // HAProxy's line may come a moment after the client's answer.
    let line = interrupt::wait_for("HAProxy to say DOWN", Duration::from_secs(2), || Ok(lb.down())).ok();
    interrupt::check()?;
    match &line {
        Some(line) => tell!("HAProxy's log: {}", line.told()),
        None => tell!("HAProxy said nothing about DOWN"),
    }
    let reply = reply.map(|reply| reply.status).map_err(|error| format!("{error:#}"));
    let took = format!("{} of {} s", seconds(ended), ASKED.as_secs());
    match &reply {
        Ok(status) => tell!("the client has its answer: {status}, after {took}"),
        Err(error) => tell!("the client has no answer, after {took}: {error}"),
    }

    let after = settled(daemon, &before)?;
    let down = line.map(|line| line.at.duration_since(asked_at));
    conclude(&Observed { reply, ended, asked: ASKED, down, before, after })
}

/// A few requests that end well, so that the numbers before the cut are not all zero.
fn ordinary(lb: &LoadBalancer, daemon: &Daemon) -> Result<()> {
    let start = Counts::of(&daemon.scrape()?, pod::NAME);
    for _ in 0..5 {
        interrupt::check()?;
        let reply = lb.get("/", Duration::from_secs(5))?;
        if reply.status != 200 {
            bail!(
                "an ordinary request through HAProxy got {}: the stage is not as it should be",
                reply.status
            );
        }
    }
    tell!("five ordinary requests through HAProxy: 200 each");
    // The daemon's view needs no time, but HAProxy ends its connections when it likes.
    interrupt::pause(Duration::from_millis(300))?;
    story::table(&start, &Counts::of(&daemon.scrape()?, pod::NAME));
    Ok(())
}

/// The daemon's numbers once the cut is in them, or when it has had time enough.
fn settled(daemon: &mut Daemon, before: &Counts) -> Result<Counts> {
    // An RST may follow the FIN by some milliseconds.
    interrupt::pause(Duration::from_millis(200))?;
    let deadline = Instant::now() + Duration::from_secs(3);
    loop {
        daemon.running()?;
        let after = Counts::of(&daemon.scrape()?, pod::NAME);
        let closed = after.closed_since(before).is_some_and(|closed| closed > 0.0);
        let cut = after.cuts_since(before).is_none_or(|cuts| !cuts.is_empty());
        if closed && cut || Instant::now() > deadline {
            return Ok(after);
        }
        interrupt::pause(Duration::from_millis(100))?;
    }
}

fn conclude(observed: &Observed) -> Result<()> {
    tell!("what gt-daemon's /metrics say, from just before the 503 to now:");
    story::table(&observed.before, &observed.after);
    let findings = judge(observed);
    for note in &findings.notes {
        measure!("note: {note}");
    }
    if !findings.contradictions.is_empty() {
        bail!("the demo did not show what it should:\n- {}", findings.contradictions.join("\n- "));
    }
    let apart = observed.down.map(|down| observed.ended.abs_diff(down)).unwrap_or_default();
    tell!(
        "so: HAProxy cut a request in flight when it marked the pod DOWN. The client had its 502 within {:.1} ms of that instant, {} s before its answer was due.",
        apart.as_secs_f64() * 1000.0,
        seconds(observed.asked.saturating_sub(observed.ended))
    );
    Ok(())
}

fn seconds(length: Duration) -> String {
    format!("{:.2}", length.as_secs_f64())
}
