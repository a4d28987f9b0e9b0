//! `cargo xtask bench rivals`: gt beside what people watch resets with, over the same load in the same run.
//!
//! Owns: the turns and the figures. Refuses: to leave out a rival that is cheaper, or one that cannot run here without
//! saying why.

mod way;

use std::{fmt::Write as _, fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::{Ground, document, figures::spread, load::Ending, machine, stage::Stage};
use crate::stage::interrupt;
use way::{Watcher, Way};

/// Connections in a second, each ended by an RST.
const RATE: u32 = 1000;

/// How long a round lasts: some looks of a poller.
const LENGTH: Duration = Duration::from_secs(6);

/// Load before what is counted.
const WARM_UP: Duration = Duration::from_secs(1);

const ROUNDS: usize = 5;

/// How the benchmark may be told to differ.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Where to write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// End with an error when gt missed an RST
    #[arg(long)]
    check: bool,
    /// How gt-daemon attaches to the kernel: auto, kprobe or btf
    #[arg(long, value_name = "BACKEND", default_value = "auto")]
    attach: String,
}

/// One round of one way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Round {
    /// Share of a core that its processes used, in percent.
    own: f64,
    /// The same of everything on the machine, the load included.
    machine: f64,
    happened: u64,
    seen: u64,
}

/// What became of a way.
#[derive(Clone, Debug)]
struct Outcome {
    way: Way,
    rounds: Vec<Round>,
    /// Why it has none.
    absent: Option<String>,
}

/// Runs the benchmark.
pub(super) fn run(options: &Options) -> Result<()> {
    let ground = Ground::make("rivals")?;
    let machine = &ground.machine;
    let outcomes = measure(&ground, options)?;
    print!("{}", markdown(&outcomes));
    if let Some(file) = &options.json {
        let text = format!("{:#}\n", for_machines(&outcomes, &machine.json()));
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let file = document::write("Rivals", "rivals", machine, &markdown(&outcomes))?;
    println!("bench: written to {}", file.display());
    let gt = outcomes.iter().find(|outcome| outcome.way == Way::Gt);
    let missed = gt.is_none_or(|gt| gt.rounds.iter().any(|round| round.seen != round.happened));
    if options.check && missed {
        bail!("gt did not count each RST");
    }
    Ok(())
}

/// All ways take turns, so that a slow drift of the machine favours none.
fn measure(ground: &Ground, options: &Options) -> Result<Vec<Outcome>> {
    let mut outcomes: Vec<_> =
        Way::ALL.map(|way| Outcome { way, rounds: Vec::new(), absent: None }).into_iter().collect();
    for number in 0..ROUNDS {
        for outcome in &mut outcomes {
            interrupt::check()?;
            if outcome.absent.is_some() {
                continue;
            }
            let workdir = ground.stage.directory();
            let started =
                Watcher::start(outcome.way, &ground.stage, &ground.binaries, &options.attach, workdir);
            match started {
                Ok(watcher) => outcome.rounds.push(round(&ground.stage, &watcher)?),
                // A rival may miss something here; gt may not.
                Err(error) if outcome.way != Way::Gt && number == 0 => {
                    outcome.absent = Some(format!("{error:#}"));
                }
                Err(error) => return Err(error),
            }
        }
        println!("bench: round {} of {ROUNDS}", number + 1);
    }
    Ok(outcomes)
}

fn round(stage: &Stage, watcher: &Watcher) -> Result<Round> {
    stage.paced(RATE, WARM_UP, Ending::Reset)?;
    interrupt::pause(Duration::from_millis(500))?;
    let (seen, used, busy) = (watcher.resets()?, watcher.used_ns()?, machine::busy()?);
    let happened = stage.paced(RATE, LENGTH, Ending::Reset)?;
    // What is printed or counted late is its work, too.
    interrupt::pause(Duration::from_millis(500))?;
    let (used, busy) = (watcher.used_ns()? - used, machine::busy()? - busy);
    let length = LENGTH.as_secs_f64() + 0.5;
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a round")]
    let own = used as f64 / 1e9;
    Ok(Round {
        own: 100.0 * own / length,
        machine: 100.0 * busy / length,
        happened,
        seen: watcher.resets()? - seen,
    })
}

impl Outcome {
    fn figure(&self, of: impl Fn(&Round) -> f64) -> Option<(f64, f64, f64)> {
        spread(self.rounds.iter().map(of).collect())
    }

    /// RSTs seen and RSTs that were, of all rounds.
    fn seen(&self) -> (u64, u64) {
        (
            self.rounds.iter().map(|round| round.seen).sum(),
            self.rounds.iter().map(|round| round.happened).sum(),
        )
    }
}

fn markdown(outcomes: &[Outcome]) -> String {
    let median = |way: Way, of: fn(&Round) -> f64| {
        let outcome = outcomes.iter().find(|outcome| outcome.way == way)?;
        outcome.figure(of).map(|(median, ..)| median)
    };
    let gt = median(Way::Gt, |round| round.own);
    let mut rows = String::new();
    let mut absent = String::new();
    for outcome in outcomes {
        let name = outcome.way.name();
        if let Some(reason) = &outcome.absent {
            let reason = reason.lines().next().unwrap_or_default();
            let _never_fails = writeln!(absent, "- {name} cannot run here: {reason}");
            continue;
        }
        let spread_of = |of: fn(&Round) -> f64| {
            outcome.figure(of).map_or_else(
                || "-".to_owned(),
                |(median, least, most)| format!("{median:.2} ({least:.2} to {most:.2})"),
            )
        };
        let times = match (outcome.figure(|round| round.own), gt) {
            (Some((own, ..)), Some(gt)) if gt > 0.0 && outcome.way != Way::Nobody => {
                format!("{:.2}", own / gt)
            }
            _ => "-".to_owned(),
        };
        let (seen, happened) = outcome.seen();
        let seen = if outcome.way == Way::Nobody { "-".to_owned() } else { format!("{seen} of {happened}") };
        let _never_fails = writeln!(
            rows,
            "| {name} | {} | {times} | {} | {seen} |",
            spread_of(|round| round.own),
            spread_of(|round| round.machine)
        );
    }
    if !absent.is_empty() {
        absent.insert(0, '\n');
    }
    format!(
        "{RATE} connections a second to a watched pod, each with one request and ended by the client's RST; {ROUNDS} rounds of {} s, in
which all ways take turns; the median, and the least and the most.

| Who watches | Its processes: % of a core | Times gt's | The whole machine: % of a core | RSTs seen |
|---|---|---|---|---|
{rows}{absent}
*Its processes* is what is told as theirs: what programs in the kernel and packet filters take is in the load's time, and so in *the
whole machine* alone, where *nobody* is what the load takes by itself. gt keeps the state of each connection besides, judges its end,
and counts by pod; tcpdump and bpftrace print a line for each RST, and bpftrace for each change of state. `ss`, started in the pod as
a poller does it, sees the sockets of that instant and no RST; what a `kubectl exec` costs beyond that is in *Reading inside pods*.
",
        LENGTH.as_secs()
    )
}

fn for_machines(outcomes: &[Outcome], machine: &Value) -> Value {
    let ways = outcomes.iter().map(|outcome| {
        let rounds = outcome.rounds.iter().map(|round| {
            json!({
                "own_percent": round.own, "machine_percent": round.machine,
                "resets": round.happened, "seen": round.seen,
            })
        });
        json!({ "way": outcome.way.name(), "rounds": rounds.collect::<Vec<_>>(), "absent": outcome.absent })
    });
    json!({ "machine": machine, "connections_per_second": RATE, "ways": ways.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises a rival that is cheaper, one that misses something and one that cannot run, so that the table says so.
    #[test]
    fn nobody_is_flattered() {
        let outcome = |way, own, seen| Outcome {
            way,
            rounds: vec![Round { own, machine: 20.0, happened: 10, seen }],
            absent: None,
        };
        let absent =
            Outcome { way: Way::Bpftrace, rounds: Vec::new(), absent: Some("no tracefs\nmore".to_owned()) };
        let text = markdown(&[
            outcome(Way::Nobody, 0.0, 0),
            outcome(Way::Gt, 2.0, 10),
            outcome(Way::Tcpdump, 1.0, 9),
            absent,
        ]);
        assert!(text.contains("| nobody | 0.00 (0.00 to 0.00) | - | 20.00"), "{text}");
        assert!(text.contains("| gt-daemon | 2.00 (2.00 to 2.00) | 1.00 |"), "{text}");
        assert!(text.contains("| tcpdump of RSTs | 1.00 (1.00 to 1.00) | 0.50 |"), "{text}");
        assert!(text.contains("| 10 of 10 |") && text.contains("| 9 of 10 |"), "{text}");
        assert!(text.contains("\n- bpftrace cannot run here: no tracefs\n"), "{text}");
    }
}
