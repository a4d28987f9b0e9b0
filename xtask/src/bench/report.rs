//! The figures as a table, as JSON and as a section of docs/benchmarks.md.

use std::{fmt::Write as _, time::SystemTime};

use serde_json::json;

use super::{
    figures::{HookFigure, Over, Rate, Results},
    machine::Machine,
};
use crate::stage::clock;

/// For the terminal.
pub(super) fn table(results: &Results) -> String {
    let mut text = format!(
        "{:13} {:28} {:>26} {:>6} {:>26} {:>6} {:>9}\n",
        "question", "hook", "watched: ns over empty", "goal", "other: ns over empty", "goal", "runs/conn"
    );
    for figure in &results.hooks {
        let goals = figure.goals();
        let hook = format!("{} {}", figure.hook.backend, figure.hook.target);
        // A string takes what it gets: nothing here can fail.
        let _never_fails = writeln!(
            text,
            "{:13} {hook:28} {:>26} {:>6.0} {:>26} {:>6.0} {:>9}",
            figure.hook.question,
            nanoseconds(figure.watched),
            goals.0,
            nanoseconds(figure.unwatched),
            goals.1,
            runs(figure),
        );
    }
    for rate in results.rates() {
        let _never_fails = writeln!(
            text,
            "{} a second, with : without gt-daemon: {}, goal {}",
            rate.what,
            ratio(&rate),
            rate.goal
        );
    }
    let missed = results.missed();
    if missed.is_empty() {
        text.push_str("all goals reached\n");
    } else {
        let _never_fails = writeln!(text, "goals missed:\n- {}", missed.join("\n- "));
    }
    text
}

fn nanoseconds(over: Option<Over>) -> String {
    over.map_or_else(
        || "did not run".to_owned(),
        |over| format!("{:.0} ({:.0} to {:.0})", over.median, over.least, over.most),
    )
}

fn ratio(rate: &Rate) -> String {
    let (median, least, most) = rate.ratio();
    format!("{median:.3} ({least:.3} to {most:.3} in {} pairs)", rate.pairs.len())
}

fn runs(figure: &HookFigure) -> String {
    figure.watched.or(figure.unwatched).map_or_else(|| "-".to_owned(), |over| format!("{:.1}", over.runs))
}

/// For machines.
pub(super) fn json(results: &Results, machine: &Machine) -> String {
    let over = |over: Option<Over>, goal: f64| {
        over.map(|over| {
            json!({
                "ns_over_empty": over.median, "least": over.least, "most": over.most,
                "runs_per_connection": over.runs, "goal": goal, "reached": over.median <= goal,
            })
        })
    };
    let hooks: Vec<_> = results
        .hooks
        .iter()
        .map(|figure| {
            json!({
                "question": figure.hook.question,
                "backend": figure.hook.backend,
                "target": figure.hook.target,
                "watched": over(figure.watched, figure.goals().0),
                "other": over(figure.unwatched, figure.goals().1),
            })
        })
        .collect();
    let rates: serde_json::Map<_, _> = results
        .rates()
        .into_iter()
        .map(|rate| {
            let (median, least, most) = rate.ratio();
            let pairs: Vec<_> =
                rate.pairs.iter().map(|pair| json!({ "with": pair.with, "without": pair.without })).collect();
            let value = json!({
                "ratio": median, "least": least, "most": most, "goal": rate.goal,
                "reached": !rate.is_missed(), "pairs": pairs,
            });
            (rate.what.to_owned(), value)
        })
        .collect();
    let value = json!({
        "time": clock::utc(SystemTime::now()),
        "machine": machine.json(),
        "hooks": hooks,
        "rates": rates,
        "missed": results.missed(),
    });
    format!("{value:#}\n")
}

/// For readers.
pub(super) fn markdown(results: &Results) -> String {
    let mut rows = String::new();
    for figure in &results.hooks {
        let goals = figure.goals();
        let cell = |over: Option<Over>, goal: f64| {
            let mark = if over.is_some_and(|over| over.median > goal) { " **missed**" } else { "" };
            format!("{}{mark}", nanoseconds(over))
        };
        let _never_fails = writeln!(
            rows,
            "| {} | {} | `{}` | {} | {:.0} | {} | {:.0} | {} |",
            figure.hook.question,
            figure.hook.backend,
            figure.hook.target,
            cell(figure.watched, goals.0),
            goals.0,
            cell(figure.unwatched, goals.1),
            goals.1,
            runs(figure),
        );
    }
    let mut rates = String::new();
    for rate in results.rates() {
        let mark = if rate.is_missed() { " **missed**" } else { "" };
        let _never_fails =
            writeln!(rates, "- {}: {}{mark}, goal: at least {}", rate.what, ratio(&rate), rate.goal);
    }
    format!(
        "Both ends of every connection and the daemon share these CPUs.

### Cost of a hook

Mean time of a run, by the kernel's own statistics, less that of an *empty* program attached to the same hook in
the same run: the statistics' clock is in both. In nanoseconds; the median of the rounds, and the least and the
most of them in brackets.

| Question | Backend | Hook | Watched | Goal | Other | Goal | Runs per connection |
|---|---|---|---|---|---|---|---|
{rows}
*Watched*: both ends of the connections are in network namespaces of watched pods. *Other*: the same load between
two namespaces of nobody, while the watched pods are idle. A mean is over all runs, those included that end at
once, such as the state changes before ESTABLISHED.

The load is in namespaces joined by veth: four clients and four workers open, send one request, answer and close as
fast as they can. For the RST hooks the client ends each connection by an RST instead. Rounds take turns; programs
on one hook run one after the other, so gt's are first in half of the rounds.

### Connections and requests a second

With gt-daemon : without, in turns, each pair a ratio; the median of the pairs, and the least and the most:

{rates}
*Connections*: the same load, without an RST and without the statistics. *Requests*: four clients with a connection each, which
stays; a request follows the answer to the one before. The server's namespace is watched, the clients' is not; all connections
are of user traffic, and the daemon reads every event.
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{figures::Pair, programs::Hook};

    fn results() -> Results {
        let over = |median| Some(Over { median, least: median - 1.0, most: median + 1.0, runs: 9.0 });
        let hook = Hook { question: "state_change".to_owned(), target: "t".to_owned(), ..Hook::default() };
        Results {
            hooks: vec![HookFigure { hook, watched: over(251.0), unwatched: None }],
            connections: vec![Pair { with: 98.0, without: 100.0 }],
            requests: vec![Pair { with: 98.0, without: 100.0 }],
        }
    }

    /// Exercises a missed goal and a hook that did not run, so that neither reads like success or zero.
    #[test]
    fn misses_are_marked() {
        let machine =
            Machine { kernel: "6.1".to_owned(), cpu: "x".to_owned(), cpus: 2, idle: 99.4, other_daemons: 1 };
        let text = markdown(&results());
        assert!(text.contains("| 251 (250 to 252) **missed** | 150 | did not run | 60 | 9.0 |"), "{text}");
        assert!(machine.to_string().contains("kernel 6.1, 2 x x, 99 % idle before the run, 1 other"));
        assert!(text.contains("\n- connections: 0.980 (0.980 to 0.980 in 1 pairs), goal: at least 0.98\n"));
        assert!(text.contains("\n- requests: 0.980 (0.980 to 0.980 in 1 pairs) **missed**, goal"));
        assert!(table(&results()).contains("goals missed:\n- state_change on t takes 251 ns"));
        let json: serde_json::Value = serde_json::from_str(&json(&results(), &machine)).unwrap();
        assert_eq!(json["hooks"][0]["watched"]["reached"], false);
        assert!(json["hooks"][0]["other"].is_null());
        assert_eq!(json["rates"]["connections"]["reached"], true);
        assert_eq!(json["rates"]["requests"]["reached"], false);
    }
}
