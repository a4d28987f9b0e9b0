//! Reads one Envoy as the daemon does, and tells what each look took, until stdin is closed.
//!
//! `cargo xtask bench reading` speaks with it in lines. The first line it writes has, as JSON, path and query of each GET
//! of a look at gauges and counters. Each line on stdin is a pace and a length, `draining 5` or `open 30` (seconds); it
//! is answered by a JSON list of the looks that fell into that time. Arguments: file of the network namespace, port of
//! Envoy's admin server, Envoy's process.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, Write as _},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use gt_daemon::{
    dial::{Dialler, Target},
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

/// Looks after the first that are no part of the figures: they warm up.
const WARM_UP: usize = 2;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().context("arguments: NETNS-FILE PORT ENVOY-PROCESS");
    let netns = next()?;
    let netns = Arc::new(File::open(&netns).with_context(|| format!("cannot open {netns}"))?);
    let port = next()?.parse().context("the port is no number")?;
    let envoy = next()?;
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
        let looks = runtime.spawn(look(Arc::clone(&netns), port, envoy.clone(), pace, length));
        say(&json!(runtime.block_on(looks)??))?;
    }
    Ok(())
}

/// Looks at this pace; what learning costs once for each Envoy is left out.
async fn look(
    netns: Arc<File>,
    port: u16,
    envoy: String,
    pace: Pace,
    length: Duration,
) -> Result<Vec<Value>> {
    let settings = Settings {
        endpoints: vec![Endpoint { port, form: Form::Text, proxied: false }],
        ..Settings::default()
    };
    let target = Target { pod: "bench/envoy".into(), netns: Some(netns), address: None };
    let (sender, mut reports) = mpsc::channel(64);
    let reader = Reader::start("uid".into(), target, Dialler::new()?, settings, sender);
    reader.remote().pace(Pace::Fast);
    for _ in 0..=WARM_UP {
        report(&mut reports).await?;
    }
    reader.remote().pace(pace);
    // The look that ends now began before.
    report(&mut reports).await?;
    let (begun, mut looks) = (Instant::now(), Vec::new());
    let (mut before, mut own_us) = (Before::now(&envoy)?, own_us()?);
    while begun.elapsed() < length {
        let sample = report(&mut reports).await?;
        let used = self::own_us()? - own_us;
        let now = Before::now(&envoy)?;
        looks.push(json!({
            "counters": sample.counters.is_some(),
            "reader_us": used,
            "envoy_us": now.envoy_us - before.envoy_us,
            "wall_us": u64::try_from((now.at - before.at).as_micros())?,
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

/// Envoy's clock of CPU time, and the wall's.
struct Before {
    envoy_us: u64,
    at: Instant,
}

impl Before {
    fn now(envoy: &str) -> Result<Self> {
        let file = format!("/proc/{envoy}/task/{envoy}/schedstat");
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        let ns: u64 = text.split_whitespace().next().context("schedstat is empty")?.parse()?;
        Ok(Self { envoy_us: ns / 1000, at: Instant::now() })
    }
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
