//! Reads one Envoy as the daemon does, and tells what each look took, until stdin is closed.
//!
//! `cargo xtask bench reading` speaks with it in lines. The first line it writes has, as JSON, path and query of each GET
//! of a look at gauges and counters. Each line on stdin is a pace and a length, `draining 5` or `open 30` (seconds); it
//! is answered by a JSON list of the looks that fell into that time. A look has `counters` (whether it was at them, too),
//! `begun_ns` and `ended_ns` (`CLOCK_MONOTONIC`, around its questions and answers), `reader_us` (this process's CPU time since
//! the look before) and `wall_us` (since then). Arguments: file of the network namespace, port of Envoy's admin server.

use std::{
    fs::File,
    io::{self, BufRead as _, Write as _},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use gt_daemon::{
    dial::{Address, Dialler, Target},
    envoy::{
        form::Form,
        query::paths,
        reader::{Endpoint, Reader, Report, Settings},
        sample::Sample,
    },
    poll::Pace,
};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::{TimeVal, TimeValLike as _},
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, Receiver};

/// A look comes every few seconds at the slow pace; later ones are not coming.
const LIMIT: Duration = Duration::from_secs(30);

/// Looks after the first that are no part of the figures: they warm up. They are at the pace that is measured, since what
/// they cost tells how often the next are made.
const WARM_UP: usize = 2;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().context("arguments: NETNS-FILE PORT");
    let netns = next()?;
    let netns = Arc::new(File::open(&netns).with_context(|| format!("cannot open {netns}"))?);
    let port = next()?.parse().context("the port is no number")?;
    say(&json!(paths(Form::Text, true)))?;
    // As `run` has it.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for line in io::stdin().lock().lines() {
        let line = line.context("cannot read stdin")?;
        let (pace, seconds) = line.split_once(' ').context("a line is a pace and a number of seconds")?;
        let pace = match pace {
            "draining" => Pace::Fast,
            "open" => Pace::Slow,
            other => bail!("no pace is called {other:?}: draining or open"),
        };
        let length = Duration::from_secs(seconds.parse().context("the length is no number of seconds")?);
        // Spawned, since the daemon's tasks run on its runtime's threads, too.
        let looks = runtime.spawn(look(Arc::clone(&netns), port, pace, length));
        say(&json!(runtime.block_on(looks)??))?;
    }
    Ok(())
}

/// Looks at this pace; what learning costs once for each Envoy is left out.
async fn look(netns: Arc<File>, port: u16, pace: Pace, length: Duration) -> Result<Vec<Value>> {
    let settings = Settings {
        endpoints: vec![Endpoint { port, form: Form::Text, proxied: false }],
        ..Settings::default()
    };
    let target = Target { pod: "bench/envoy".into(), netns: Some(netns), address: Address::default() };
    let (sender, mut reports) = mpsc::channel(64);
    let reader = Reader::start("uid".into(), target, Dialler::new()?, settings, sender);
    reader.remote().pace(pace);
    for _ in 0..=WARM_UP {
        report(&mut reports).await?;
    }
    let (begun, mut looks) = (Instant::now(), Vec::new());
    let (mut before, mut own_us) = (begun, own_us()?);
    while begun.elapsed() < length {
        let sample = report(&mut reports).await?;
        let used = self::own_us()? - own_us;
        let now = Instant::now();
        let ended = sample.counters.map_or(sample.gauges.ended, |counters| counters.ended);
        looks.push(json!({
            "counters": sample.counters.is_some(),
            "begun_ns": sample.gauges.begun.monotonic_ns,
            "ended_ns": ended.monotonic_ns,
            "reader_us": used,
            "wall_us": u64::try_from((now - before).as_micros())?,
        }));
        before = now;
        // What measuring takes is not the reader's.
        own_us = self::own_us()?;
    }
    Ok(looks)
}

async fn report(reports: &mut Receiver<Report>) -> Result<Sample> {
    let report = tokio::time::timeout(LIMIT, reports.recv()).await;
    Ok(report.context("no look in time")?.context("the reader ended")?.outcome?)
}

/// Microseconds of CPU time of all of this process's threads.
fn own_us() -> Result<u64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = |time: TimeVal| time.num_microseconds();
    u64::try_from(micros(usage.user_time()) + micros(usage.system_time())).context("negative time")
}

fn say(value: &Value) -> Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{value}").and_then(|()| stdout.flush()).context("cannot write to stdout")
}
