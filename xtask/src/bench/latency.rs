//! `cargo xtask bench latency`: how long it takes from an event in the kernel to its line at a console, against a goal.
//!
//! Owns: the pace of the load and the clock at the end of the way. Refuses: to measure what a slower load would show.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::{
    Ground,
    daemon::{self, Binaries},
    document,
    load::Ending,
    machine::Machine,
    stage::Stage,
};
use crate::{
    sandbox::Process,
    stage::{clock, interrupt},
};

/// Events in a second, each the end of a connection of a watched pod.
const RATE: u32 = 1000;

/// How long they come, and how long they come before any is counted.
const LENGTH: Duration = Duration::from_secs(20);
const WARM_UP: Duration = Duration::from_secs(3);

/// Of 100 events 99 are printed within this, milliseconds.
const GOAL: f64 = 50.0;

/// A load that is this much slower than it should be shows nothing.
const LEAST_RATE: f64 = 0.95;

const DAY: i64 = 86_400_000_000;

/// How the benchmark may be told to differ.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Where to write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// End with an error when the goal is missed
    #[arg(long)]
    check: bool,
    /// How gt-daemon attaches to the kernel: auto, kprobe or btf
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    attach: String,
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
struct Results {
    events: usize,
    /// Events in a second.
    rate: f64,
    /// Messages that the daemon left out.
    lost: u64,
    /// Milliseconds.
    median: f64,
    p90: f64,
    p99: f64,
    most: f64,
}

/// What the console printed: for each end of a connection microseconds from its stamp to its line, and losses.
#[derive(Debug, Default)]
struct Printed {
    delays: Vec<i64>,
    lost: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

/// Runs the benchmark.
pub(super) fn run(options: &Options) -> Result<()> {
    let ground = Ground::make("latency")?;
    let Ground { stage, binaries, machine, .. } = &ground;
    let results = measure(stage, binaries, &options.attach)?;
    println!("{}", line(&results));
    if let Some(file) = &options.json {
        fs::write(file, for_machines(&results, machine))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let file = document::write("From an event to its line", "latency", machine, &markdown(&results))?;
    println!("bench: written to {}", file.display());
    if options.check && is_missed(&results) {
        bail!("the goal is missed: {}", line(&results));
    }
    Ok(())
}

fn measure(stage: &Stage, binaries: &Binaries, attach: &str) -> Result<Results> {
    let daemon = daemon::start(binaries, attach, stage.server_only())?;
    stage.until_watched(&daemon)?;
    let printed: Arc<Mutex<Printed>> = Arc::default();
    let _console = console(&binaries.daemon, daemon.socket(), &printed)?;
    let now = || printed.lock().unwrap_or_else(PoisonError::into_inner);
    stage.paced(RATE, WARM_UP, Ending::Close)?;
    interrupt::wait_for("the first lines", Duration::from_secs(5), || {
        Ok((!now().delays.is_empty()).then_some(()))
    })?;
    interrupt::pause(Duration::from_secs(1))?;
    *now() = Printed::default();
    let made = stage.paced(RATE, LENGTH, Ending::Close)?;
    interrupt::pause(Duration::from_secs(1))?;
    let printed = std::mem::take(&mut *now());
    let Printed { mut delays, lost, first, last } = printed;
    ensure!(
        delays.len() as u64 + lost >= made,
        "{made} connections ended, and {} lines came, {lost} lost",
        delays.len()
    );
    let seconds = first.zip(last).map_or(0.0, |(first, last)| (last - first).as_secs_f64());
    delays.sort_unstable();
    let results = results(&delays, seconds, lost).context("nothing was printed")?;
    ensure!(
        results.rate >= LEAST_RATE * f64::from(RATE),
        "{:.0} events/s came, not {RATE}: this machine is too busy to tell anything",
        results.rate
    );
    Ok(results)
}

/// `gt-daemon trace` as a process of its own; a thread takes its lines, each with the time of its coming.
fn console(program: &Path, socket: &Path, printed: &Arc<Mutex<Printed>>) -> Result<Process> {
    let mut command = Command::new(program);
    command.args(["trace", "--output", "json", "--socket"]).arg(socket);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = Process::start("gt-daemon trace", &mut command)?;
    let stdout = process.child().stdout.take().context("no pipe to the console")?;
    let printed = Arc::clone(printed);
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let (at, utc) = (Instant::now(), clock::utc(SystemTime::now()));
            let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
            let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
            printed.lost += message["messages"].as_u64().unwrap_or(0);
            // The first word on each end: what was judged later is another line.
            let is_first = message["event"] == "tcp_teardown" && message["word"] != "better";
            if is_first && let Some(delay) = message["ts"].as_str().and_then(|ts| between(ts, &utc)) {
                printed.delays.push(delay);
                printed.first.get_or_insert(at);
                printed.last = Some(at);
            }
        }
    });
    Ok(process)
}

/// Microseconds from one stamp to another less than half a day away.
fn between(from: &str, to: &str) -> Option<i64> {
    let since_midnight = |stamp: &str| -> Option<i64> {
        let time = stamp.split_once('T')?.1.strip_suffix('Z')?;
        let (time, micros) = time.split_once('.')?;
        let mut parts = time.split(':').map(|part| part.parse::<i64>().ok());
        let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
        Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros.parse::<i64>().ok()?)
    };
    let between = since_midnight(to)? - since_midnight(from)?;
    Some((between + DAY / 2).rem_euclid(DAY) - DAY / 2)
}

/// Delays in order; `None` without any.
fn results(delays: &[i64], seconds: f64, lost: u64) -> Option<Results> {
    #[expect(clippy::cast_precision_loss, reason = "microseconds of a benchmark")]
    let at = |part: usize| -> Option<f64> {
        let place = (delays.len() * part).div_ceil(1000).max(1) - 1;
        delays.get(place).map(|us| *us as f64 / 1000.0)
    };
    #[expect(clippy::cast_precision_loss, reason = "a count of a benchmark")]
    let rate = if seconds > 0.0 { delays.len() as f64 / seconds } else { 0.0 };
    Some(Results {
        events: delays.len(),
        rate,
        lost,
        median: at(500)?,
        p90: at(900)?,
        p99: at(990)?,
        most: at(1000)?,
    })
}

fn is_missed(results: &Results) -> bool {
    results.p99 > GOAL || results.lost > 0
}

fn line(results: &Results) -> String {
    let Results { events, rate, lost, median, p90, p99, most } = results;
    format!(
        "{events} events, {rate:.0} a second, {lost} lost: median {median:.1} ms, p90 {p90:.1} ms, p99 {p99:.1} ms (goal {GOAL} \
         ms), most {most:.1} ms"
    )
}

fn for_machines(results: &Results, machine: &Machine) -> String {
    let Results { events, rate, lost, median, p90, p99, most } = results;
    let value = json!({
        "time": clock::utc(SystemTime::now()),
        "machine": machine.json(),
        "events": events, "per_second": rate, "lost": lost,
        "ms": {"median": median, "p90": p90, "p99": p99, "most": most},
        "goal_p99_ms": GOAL, "reached": !is_missed(results),
    });
    format!("{value:#}\n")
}

fn markdown(results: &Results) -> String {
    let Results { events, rate, lost, median, p90, p99, most } = results;
    let missed = if is_missed(results) { " **missed**" } else { "" };
    format!(
        "Connections to a watched pod end at {RATE} a second; `gt-daemon trace -o json` is a process of its own, which prints each
end. From the stamp of the event, which is the kernel's, to the line's coming out of the pipe, in milliseconds:

| Events | A second | Lost | Median | p90 | p99 | Goal | Most |
|---|---|---|---|---|---|---|---|
| {events} | {rate:.0} | {lost} | {median:.1} | {p90:.1} | {p99:.1}{missed} | {GOAL:.0} | {most:.1} |

The clients, the pod, the daemon and the console share these CPUs. The daemon reads the ring every 10 ms, which is most of the
median."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises stamps on both sides of midnight.
    #[test]
    fn stamps() {
        let day = |time: &str| format!("2026-05-31T{time}Z");
        assert_eq!(between(&day("07:12:34.000001"), &day("07:12:34.010001")), Some(10_000));
        assert_eq!(between(&day("23:59:59.999000"), "2026-06-01T00:00:00.001000Z"), Some(2_000));
        assert_eq!(between(&day("00:00:00.000005"), &day("00:00:00.000000")), Some(-5));
        assert_eq!(between("now", &day("00:00:00.000000")), None);
    }

    /// Exercises figures, so that a goal that is missed is marked, and so is a loss.
    #[test]
    fn figures() {
        let delays: Vec<i64> = (1..=1000).map(|ms| ms * 100).collect();
        let good = results(&delays.iter().map(|us| us / 4).collect::<Vec<_>>(), 1.0, 0).unwrap();
        assert!((good.p99 - 24.75).abs() < 0.01 && (good.median - 12.5).abs() < 0.01, "{good:?}");
        assert!(!markdown(&good).contains("missed"));
        let late = results(&delays, 1.0, 0).unwrap();
        assert!(markdown(&late).contains("99.0 **missed**"), "{}", markdown(&late));
        assert!(is_missed(&Results { lost: 1, ..good }));
        assert!(results(&[], 0.0, 0).is_none());
    }
}
