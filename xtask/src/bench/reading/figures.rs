//! From rounds to figures, and figures against goals.

use super::reader::{Look, Pace};
use crate::bench::figures::spread;

/// How many times as much as a look what it replaces has to cost, at least.
pub(super) const LEAST_TIMES: f64 = 20.0;

/// Who asks Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// gt's own reader.
    Reader,
    /// curl, started in a container by `runc exec`.
    Exec,
    /// curl, started in the network namespace without a container.
    Bare,
}

/// What Envoy is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// gt's question for gauges.
    Gauges,
    /// The same, and its question for counters.
    Both,
    /// That of pollers by `kubectl exec`.
    Usual,
}

/// All that is measured, in the order of the report.
pub(super) const ASKED: [(Asker, Question); 8] = [
    (Asker::Reader, Question::Gauges),
    (Asker::Reader, Question::Both),
    (Asker::Exec, Question::Usual),
    (Asker::Exec, Question::Gauges),
    (Asker::Exec, Question::Both),
    (Asker::Bare, Question::Usual),
    (Asker::Bare, Question::Gauges),
    (Asker::Bare, Question::Both),
];

/// CPU time for one answer, microseconds: of who asks, and of Envoy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    pub(super) own: f64,
    pub(super) envoy: f64,
}

impl Cost {
    fn sum(self) -> f64 {
        self.own + self.envoy
    }

    /// The mean; none of nothing.
    pub(super) fn mean(costs: &[Self]) -> Option<Self> {
        #[expect(clippy::cast_precision_loss, reason = "some tens")]
        let count = costs.len() as f64;
        let mean = |part: fn(&Self) -> f64| costs.iter().map(part).sum::<f64>() / count;
        (!costs.is_empty()).then(|| Self { own: mean(|cost| cost.own), envoy: mean(|cost| cost.envoy) })
    }
}

/// The mean cost of looks to who asks, and the median to Envoy, of those with or without counters: what Envoy does of
/// its own falls into few looks, and is no part of what asking costs.
pub(super) fn of_looks(looks: &[Look], counters: bool) -> Option<Cost> {
    let costs: Vec<_> = looks
        .iter()
        .filter(|look| look.counters == counters)
        .map(|look| Cost { own: look.reader_us, envoy: look.envoy_us })
        .collect();
    let (envoy, ..) = spread(costs.iter().map(|cost| cost.envoy).collect())?;
    Cost::mean(&costs).map(|mean| Cost { envoy, ..mean })
}

/// What one round measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Round(pub(super) Vec<(Asker, Question, Cost)>);

impl Round {
    fn cost(&self, asker: Asker, question: Question) -> Option<Cost> {
        let found = self.0.iter().find(|(by, what, _)| (*by, *what) == (asker, question));
        found.map(|(.., cost)| *cost)
    }
}

/// Median of the rounds, and the least and the most of them.
pub(super) type Spread = (f64, f64, f64);

/// One way to ask, over all rounds. `times` compares who asks with gt's reader, at a look of the same round that tells
/// at least as much; `times_with_envoy` has Envoy's part on both sides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) asker: Asker,
    pub(super) question: Question,
    pub(super) own: Spread,
    pub(super) envoy: Spread,
    pub(super) times: Spread,
    pub(super) times_with_envoy: Spread,
}

impl Row {
    /// Whether it is what gt replaces, whose `times` have to reach [`LEAST_TIMES`].
    pub(super) fn is_judged(&self) -> bool {
        self.asker == Asker::Exec
    }

    /// Whether it is judged and falls short.
    pub(super) fn is_missed(&self) -> bool {
        self.is_judged() && self.times.0 < LEAST_TIMES
    }
}

/// Shares of one core while a pod is asked at a pace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) pace: Pace,
    pub(super) looks: usize,
    pub(super) reader: f64,
    pub(super) envoy: f64,
}

impl Share {
    /// From the looks of some time: what one of each kind costs Envoy, times how many there were.
    pub(super) fn of(pace: Pace, looks: &[Look]) -> Self {
        let sum = |part: fn(&Look) -> f64| looks.iter().map(part).sum::<f64>();
        let wall = sum(|look| look.wall_us).max(1.0);
        let envoy = |counters: bool| {
            #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
            let count = looks.iter().filter(|look| look.counters == counters).count() as f64;
            of_looks(looks, counters).map_or(0.0, |cost| cost.envoy * count)
        };
        let (reader, envoy) = (sum(|look| look.reader_us) / wall, (envoy(false) + envoy(true)) / wall);
        Self { pace, looks: looks.len(), reader, envoy }
    }

    /// Of both.
    pub(super) fn sum(self) -> f64 {
        self.reader + self.envoy
    }

    /// What both together may use.
    pub(super) fn goal(self) -> f64 {
        match self.pace {
            Pace::Draining => 0.02,
            Pace::Open => 0.002,
        }
    }
}

/// What was measured on one gateway.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    /// Whether each of its clusters had a request, or none.
    pub(super) used: bool,
    pub(super) rounds: Vec<Round>,
    pub(super) shares: Vec<Share>,
}

impl Results {
    /// The clusters, in words.
    pub(super) fn clusters(&self) -> &'static str {
        if self.used { "all used" } else { "none used" }
    }

    /// Each way to ask.
    pub(super) fn rows(&self) -> Vec<Row> {
        let row = |asker, question| {
            let over = |value: &dyn Fn(Cost, Cost) -> f64| {
                let of_round = |round: &Round| {
                    let both = round.cost(Asker::Reader, Question::Both);
                    let gauges = round.cost(Asker::Reader, Question::Gauges);
                    let look = if question == Question::Both { both } else { gauges.or(both) };
                    Some(value(round.cost(asker, question)?, look?))
                };
                spread(self.rounds.iter().filter_map(of_round).collect())
            };
            Some(Row {
                asker,
                question,
                own: over(&|cost, _| cost.own)?,
                envoy: over(&|cost, _| cost.envoy)?,
                times: over(&|cost, look| cost.own / look.own)?,
                times_with_envoy: over(&|cost, look| cost.sum() / look.sum())?,
            })
        };
        ASKED.into_iter().filter_map(|(asker, question)| row(asker, question)).collect()
    }

    /// Each goal that was missed, in words.
    pub(super) fn missed(&self) -> Vec<String> {
        let clusters = self.clusters();
        let times = self.rows().into_iter().filter(Row::is_missed).map(|row| {
            let (asker, question, (times, ..)) = (row.asker, row.question, row.times);
            format!(
                "clusters {clusters}: {asker:?} for {question:?} costs {times:.1} times a look; at least {LEAST_TIMES} is the goal"
            )
        });
        let shares = self.shares.iter().filter(|share| share.sum() >= share.goal()).map(|share| {
            format!(
                "clusters {clusters}: at the pace of {} reading uses {:.3} % of a core; less than {} % is the goal",
                share.pace.name(),
                share.sum() * 100.0,
                share.goal() * 100.0
            )
        });
        times.chain(shares).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(counters: bool, reader_us: f64, envoy_us: f64) -> Look {
        Look { counters, reader_us, envoy_us, wall_us: 100_000.0 }
    }

    /// Exercises looks of both kinds, one of them at a time when Envoy did work of its own, so that each kind has its own
    /// cost and that work is in none.
    #[test]
    fn looks() {
        let gauges = [(80.0, 1_000.0), (120.0, 41_000.0), (100.0, 1_200.0)];
        let mut looks: Vec<_> =
            gauges.into_iter().map(|(reader, envoy)| look(false, reader, envoy)).collect();
        looks.insert(1, look(true, 200.0, 3_000.0));
        assert_eq!(of_looks(&looks, false), Some(Cost { own: 100.0, envoy: 1_200.0 }));
        assert_eq!(of_looks(&looks, true), Some(Cost { own: 200.0, envoy: 3_000.0 }));
        assert_eq!(of_looks(&looks[..1], true), None);
        let share = Share::of(Pace::Draining, &looks);
        assert_eq!(share.looks, 4);
        assert!((share.reader - 500.0 / 400_000.0).abs() < 1e-9, "{share:?}");
        assert!((share.envoy - (3.0 * 1_200.0 + 3_000.0) / 400_000.0).abs() < 1e-9, "{share:?}");
        let none = Share::of(Pace::Open, &[]);
        assert!((none.looks, none.reader, none.envoy) == (0, 0.0, 0.0), "{none:?}");
    }

    /// Exercises goals reached and missed, so that each that is missed is named and what is not judged is not.
    #[test]
    fn goals() {
        let cost = |own, envoy| Cost { own, envoy };
        let round = |usual| {
            Round(vec![
                (Asker::Reader, Question::Gauges, cost(100.0, 1_000.0)),
                (Asker::Exec, Question::Usual, cost(usual, 9_000.0)),
                (Asker::Exec, Question::Gauges, cost(9_000.0, 1_000.0)),
                (Asker::Bare, Question::Gauges, cost(500.0, 1_000.0)),
            ])
        };
        let share = |pace, sum: f64| Share { pace, looks: 9, reader: sum / 2.0, envoy: sum / 2.0 };
        let mut results = Results {
            used: true,
            rounds: vec![round(2_000.0), round(2_000.0), round(90_000.0)],
            shares: vec![share(Pace::Draining, 0.019), share(Pace::Open, 0.0019)],
        };
        let rows = results.rows();
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[0].times, (1.0, 1.0, 1.0));
        assert_eq!(rows[1].times, (20.0, 20.0, 900.0));
        assert_eq!(rows[1].times_with_envoy, (10.0, 10.0, 90.0));
        assert_eq!(results.missed(), Vec::<String>::new());
        results.rounds = vec![round(1_910.0)];
        results.shares = vec![share(Pace::Draining, 0.02), share(Pace::Open, 0.002)];
        let missed = results.missed();
        assert_eq!(missed.len(), 3, "{missed:?}");
        assert!(missed[0].contains("19.1 times"), "{missed:?}");
        assert!(missed[1].contains("draining") && missed[2].contains("open"), "{missed:?}");
    }

    /// Exercises a round all of whose looks were at counters too, so that what asks for less is compared with them.
    #[test]
    fn looks_of_one_kind() {
        let cost = |own| Cost { own, envoy: 0.0 };
        let costs =
            vec![(Asker::Reader, Question::Both, cost(100.0)), (Asker::Exec, Question::Usual, cost(3_000.0))];
        let results = Results { used: true, rounds: vec![Round(costs)], shares: Vec::new() };
        let rows = results.rows();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1].times, (30.0, 30.0, 30.0));
    }
}
