//! What reading an Envoy with 500 clusters costs, in CPU time: of Envoy's main thread, which answers, and of the reader.

use std::{
    io::Read as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use gt_daemon::{
    envoy::{form::Form, sample::Sample},
    poll::Pace,
};
use nix::sys::{
    resource::{Usage, UsageWho, getrusage},
    time::TimeVal,
};
use xtask::sandbox::eventually;

use crate::{
    Case,
    envoy::Reading,
    real_envoy::{self, Config, RealEnvoy, SOON, cpu_us},
};

/// As many as a large gateway has.
const CLUSTERS: usize = 500;

/// Shares of one core: while a pod drains, and while nothing happens.
const DRAINING: f64 = 0.02;
const OPEN: f64 = 0.002;

/// One read against the process it replaces. Both leave the caches cold for the next, and most of what the process
/// costs is the same walk over Envoy's stats; on a machine at rest it is some twenty times.
const CHEAPER: f64 = 5.0;

pub fn cases() -> Vec<Case> {
    let missing = real_envoy::missing();
    let no_curl = missing.clone().or_else(|| {
        let found = Command::new("curl").arg("--version").output().is_ok();
        (!found).then(|| "curl is not installed: it plays the process that is replaced".to_owned())
    });
    vec![
        Case::new("cost::of_a_pace", missing.as_ref(), of_a_pace),
        Case::new("cost::of_one_read", no_curl.as_ref(), of_one_read),
    ]
}

/// What was used since it was started: by Envoy's main thread, and by this one, on which the reader runs.
struct Meter<'a> {
    envoy: &'a RealEnvoy,
    envoy_us: u64,
    own_us: u64,
    since: Instant,
}

/// Seconds of CPU time and of wall time.
#[derive(Clone, Copy)]
struct Used {
    envoy: f64,
    own: f64,
    wall: f64,
}

impl<'a> Meter<'a> {
    fn start(envoy: &'a RealEnvoy) -> Result<Self> {
        let (envoy_us, own_us) = (envoy.main_thread_us()?, own_us()?);
        Ok(Self { envoy, envoy_us, own_us, since: Instant::now() })
    }

    fn read(&self) -> Result<Used> {
        let seconds = |us: u64| Duration::from_micros(us).as_secs_f64();
        Ok(Used {
            envoy: seconds(self.envoy.main_thread_us()? - self.envoy_us),
            own: seconds(own_us()? - self.own_us),
            wall: self.since.elapsed().as_secs_f64(),
        })
    }
}

/// The share of its main thread that Envoy uses when nobody asks it: every five seconds it flushes its stats.
fn unasked(envoy: &RealEnvoy) -> Result<f64> {
    let meter = Meter::start(envoy)?;
    std::thread::sleep(Duration::from_secs(5));
    let used = meter.read()?;
    Ok(used.envoy / used.wall)
}

/// Microseconds of CPU time of this thread.
fn own_us() -> Result<u64> {
    let usage: Usage = getrusage(UsageWho::RUSAGE_THREAD)?;
    let micros = |time: TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
    u64::try_from(micros(usage.user_time()) + micros(usage.system_time())).context("negative time")
}

fn on_this_thread<T>(test: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(test)
}

/// An Envoy each of whose clusters had a request, or none had.
fn envoy(busy: bool) -> Result<RealEnvoy> {
    let envoy = RealEnvoy::start(Config { further_clusters: CLUSTERS - 1, ..Config::default() })?;
    for index in 0..if busy { CLUSTERS - 1 } else { 0 } {
        envoy.request_of(index)?;
    }
    Ok(envoy)
}

/// Exercises both paces, so that reading stays within its share of a core.
fn of_a_pace() -> Result<()> {
    for (busy, paces) in [
        (false, &[(Pace::Slow, 11, OPEN), (Pace::Fast, 5, DRAINING)][..]),
        (true, &[(Pace::Fast, 5, DRAINING)]),
    ] {
        let envoy = envoy(busy)?;
        let unasked = unasked(&envoy)?;
        for (pace, seconds, most) in paces.iter().copied() {
            let (used, looks) = on_this_thread(async {
                let mut reading = Reading::of(&envoy, Form::Text)?;
                // What learning costs once per process is no part of a pace.
                let first = reading.report().await?.outcome?;
                reading.reader.remote().pace(pace);
                let meter = Meter::start(&envoy)?;
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                let used = meter.read()?;
                let is_later = |sample: &&Sample| sample.gauges.begun > first.gauges.ended;
                Ok((used, reading.reader.history().iter().filter(is_later).count()))
            })?;
            let (envoy, own) = (used.envoy / used.wall - unasked, used.own / used.wall);
            println!(
                "cost: {CLUSTERS} clusters, {}, {pace:?}: {looks} looks in {seconds} s; of a core Envoy {:.3} %, reader \
                 {:.3} %, Envoy unasked {:.3} %",
                if busy { "all used" } else { "idle" },
                envoy * 100.0,
                own * 100.0,
                unasked * 100.0
            );
            ensure!(looks >= 2, "{looks} looks");
            // The reader's own part is several times what it is in an optimized build.
            ensure!(envoy < most, "{:.3} % of a core", envoy * 100.0);
        }
    }
    Ok(())
}

/// Starts a process that asks, and gives the seconds of CPU time it used.
fn process(url: &str) -> Result<f64> {
    let mut child = Command::new("curl").args(["-sf", url]).stdout(Stdio::piped()).spawn()?;
    let mut answer = Vec::new();
    child.stdout.take().context("no pipe")?.read_to_end(&mut answer)?;
    let id = child.id();
    // Until it is waited for, what is left of it says how long it ran.
    let ended = || {
        std::fs::read_to_string(format!("/proc/{id}/stat"))
            .ok()
            .filter(|stat| stat.contains(") Z "))
            .map(drop)
    };
    eventually("curl to end", SOON, ended)?;
    let used = cpu_us(id)?;
    ensure!(child.wait()?.success() && !answer.is_empty(), "curl found nothing at {url}");
    Ok(Duration::from_micros(used).as_secs_f64())
}

/// Exercises one read of what a drain needs, and the process it replaces: one that is started to ask for the same.
fn of_one_read() -> Result<()> {
    let envoy = envoy(false)?;
    let unasked = unasked(&envoy)?;
    let looks = 20;
    let mine = on_this_thread(async {
        let mut reading = Reading::of(&envoy, Form::Text)?;
        reading.report().await?.outcome?;
        reading.reader.remote().pace(Pace::Fast);
        let meter = Meter::start(&envoy)?;
        for _ in 0..looks {
            reading.report().await?.outcome?;
        }
        let used = meter.read()?;
        Ok((used.envoy - unasked * used.wall + used.own) / f64::from(looks))
    })?;
    let meter = Meter::start(&envoy)?;
    let mut processes = 0.0;
    let url = format!("http://{}/stats?filter=downstream_rq_active%7Cupstream_rq_active", envoy.admin);
    for _ in 0..looks {
        std::thread::sleep(Duration::from_millis(200));
        processes += process(&url)?;
    }
    let asked = meter.read()?;
    let process = (asked.envoy - unasked * asked.wall + processes) / f64::from(looks);
    println!(
        "cost: one read {:.2} ms, one process {:.2} ms, {:.0} times",
        mine * 1e3,
        process * 1e3,
        process / mine
    );
    ensure!(process / mine >= CHEAPER, "a read is only {:.1} times cheaper", process / mine);
    Ok(())
}
