//! From rounds to figures, and figures against goals.

use super::{
    load::Ending,
    programs::{Hook, Reading},
    stage::Side,
};

/// Least share of the connections a second without the daemon.
pub(super) const LEAST_CONNECTIONS: f64 = 0.98;

/// The same of requests on connections that stay.
pub(super) const LEAST_REQUESTS: f64 = 0.985;

/// One round of load, and what the hooks spent meanwhile.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) side: Side,
    pub(super) ending: Ending,
    pub(super) connections: u64,
    pub(super) spent: Reading,
}

/// What a run of gt's program took longer than one of the empty program, in nanoseconds: median of all rounds,
/// and the least and the most of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Over {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
    /// Runs of gt's program for each connection of the load.
    pub(super) runs: f64,
}

/// A hook's figures; none for sockets of a side on which it did not run.
#[derive(Clone, Debug)]
pub(super) struct HookFigure {
    pub(super) hook: Hook,
    pub(super) watched: Option<Over>,
    pub(super) unwatched: Option<Over>,
}

impl HookFigure {
    /// What it may take over an empty program, for watched and for other sockets.
    pub(super) fn goals(&self) -> (f64, f64) {
        match self.hook.question.as_str() {
            "read" => (110.0, 45.0),
            _ => (150.0, 60.0),
        }
    }
}

/// Connections or requests a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) with: f64,
    pub(super) without: f64,
}

impl Pair {
    pub(super) fn ratio(self) -> f64 {
        self.with / self.without
    }
}

/// Everything measured in one run.
#[derive(Clone, Debug)]
pub(super) struct Results {
    pub(super) hooks: Vec<HookFigure>,
    /// Connections a second, each with one request.
    pub(super) connections: Vec<Pair>,
    /// Requests a second on connections that stay.
    pub(super) requests: Vec<Pair>,
}

/// A rate with the daemon beside that without.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate<'a> {
    pub(super) what: &'static str,
    pub(super) pairs: &'a [Pair],
    pub(super) goal: f64,
}

impl Rate<'_> {
    /// Median, least and greatest ratio of the pairs.
    pub(super) fn ratio(&self) -> (f64, f64, f64) {
        spread(self.pairs.iter().map(|pair| pair.ratio()).collect()).unwrap_or((0.0, 0.0, 0.0))
    }

    pub(super) fn is_missed(&self) -> bool {
        self.ratio().0 < self.goal
    }
}

impl Results {
    /// The two rates.
    pub(super) fn rates(&self) -> [Rate<'_>; 2] {
        [
            Rate { what: "connections", pairs: &self.connections, goal: LEAST_CONNECTIONS },
            Rate { what: "requests", pairs: &self.requests, goal: LEAST_REQUESTS },
        ]
    }

    /// Each goal that was missed, in words.
    pub(super) fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        for figure in &self.hooks {
            let goals = figure.goals();
            for (sockets, over, goal) in
                [("watched", figure.watched, goals.0), ("other", figure.unwatched, goals.1)]
            {
                if let Some(over) = over.filter(|over| over.median > goal) {
                    missed.push(format!(
                        "{} on {} takes {:.0} ns over an empty program for {sockets} sockets; at most {goal:.0} ns is the goal",
                        figure.hook.question, figure.hook.target, over.median
                    ));
                }
            }
        }
        for rate in self.rates().into_iter().filter(Rate::is_missed) {
            missed.push(format!(
                "the rate of {} with gt-daemon is {:.3} of the rate without; at least {} is the goal",
                rate.what,
                rate.ratio().0,
                rate.goal
            ));
        }
        missed
    }
}

/// How connections end while a hook is timed: each ending makes other hooks run.
fn ending(question: &str) -> Ending {
    match question {
        "rst_sent" | "rst_received" => Ending::Reset,
        _ => Ending::Close,
    }
}

/// The figures of all hooks.
pub(super) fn hooks(hooks: &[Hook], rounds: &[Round]) -> Vec<HookFigure> {
    hooks
        .iter()
        .enumerate()
        .map(|(index, hook)| HookFigure {
            hook: hook.clone(),
            watched: over(index, hook, Side::Watched, rounds),
            unwatched: over(index, hook, Side::Unwatched, rounds),
        })
        .collect()
}

fn over(index: usize, hook: &Hook, side: Side, rounds: &[Round]) -> Option<Over> {
    let (mut differences, mut runs) = (Vec::new(), Vec::new());
    for round in rounds.iter().filter(|round| round.side == side && round.ending == ending(&hook.question)) {
        let Some(both) = round.spent.0.get(index) else { continue };
        // Runs that this load did not cause (another process's connections) tell nothing about it.
        if both.gt.count < round.connections / 2 {
            continue;
        }
        if let (Some(gt), Some(empty)) = (both.gt.mean(), both.empty.mean()) {
            differences.push(gt - empty);
            #[expect(clippy::cast_precision_loss, reason = "counts of a few seconds")]
            runs.push(both.gt.count as f64 / round.connections.max(1) as f64);
        }
    }
    let (median, least, most) = spread(differences)?;
    Some(Over { median, least, most, runs: spread(runs)?.0 })
}

/// Median, least and greatest; none of nothing.
pub(super) fn spread(mut values: Vec<f64>) -> Option<(f64, f64, f64)> {
    values.sort_by(f64::total_cmp);
    let (least, most) = (*values.first()?, *values.last()?);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    let lower = if values.len().is_multiple_of(2) { *values.get(middle.checked_sub(1)?)? } else { upper };
    Some((f64::midpoint(lower, upper), least, most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::programs::{Both, Run};

    fn hook(question: &str) -> Hook {
        Hook { question: question.to_owned(), target: "t".to_owned(), ..Hook::default() }
    }

    fn round(side: Side, ending: Ending, gt: (u64, u64), empty: (u64, u64)) -> Round {
        let run = |(count, ns)| Run { count, ns };
        Round { side, ending, connections: 10, spent: Reading(vec![Both { gt: run(gt), empty: run(empty) }]) }
    }

    /// Exercises rounds of both sides and endings, so that a figure comes only from those that are meant.
    #[test]
    fn figures_of_their_own_rounds() {
        let rounds = [
            round(Side::Watched, Ending::Close, (90, 27_000), (90, 9_000)),
            round(Side::Watched, Ending::Close, (90, 28_800), (90, 9_000)),
            round(Side::Watched, Ending::Close, (90, 36_000), (90, 9_000)),
            round(Side::Watched, Ending::Reset, (90, 90_000), (90, 9_000)),
            round(Side::Unwatched, Ending::Close, (4, 4_000), (4, 400)),
        ];
        let figures = hooks(&[hook("state_change")], &rounds);
        assert_eq!(figures[0].watched, Some(Over { median: 220.0, least: 200.0, most: 300.0, runs: 9.0 }));
        assert_eq!(figures[0].unwatched, None);
        let resets = hooks(&[hook("rst_sent")], &rounds);
        assert_eq!(resets[0].watched.map(|over| over.median), Some(900.0));
    }

    /// Exercises figures at and beyond their goals, so that each one that is missed is named.
    #[test]
    fn goals() {
        let over = |median| Some(Over { median, least: median, most: median, runs: 1.0 });
        let mut results = Results {
            hooks: vec![HookFigure { hook: hook("read"), watched: over(110.0), unwatched: over(45.0) }],
            connections: vec![Pair { with: 98.0, without: 100.0 }],
            requests: vec![Pair { with: 985.0, without: 1000.0 }],
        };
        assert!(results.missed().is_empty(), "{:?}", results.missed());
        results.hooks[0].watched = over(110.1);
        results.hooks[0].unwatched = over(45.1);
        results.connections.extend([Pair { with: 9.0, without: 10.0 }; 2]);
        results.requests.push(Pair { with: 96.0, without: 100.0 });
        let missed = results.missed();
        assert_eq!(missed.len(), 4);
        assert!(missed[0].contains("watched") && missed[1].contains("other"), "{missed:?}");
        assert!(missed[2].contains("connections") && missed[2].contains("0.900"), "{missed:?}");
        assert!(missed[3].contains("requests") && missed[3].contains("0.972"), "{missed:?}");
        results.hooks[0].hook = hook("socket_end");
        assert_eq!(results.missed().len(), 2);
    }

    /// Exercises odd, even and no values.
    #[test]
    fn medians() {
        assert_eq!(spread(vec![3.0, 1.0, 2.0]), Some((2.0, 1.0, 3.0)));
        assert_eq!(spread(vec![4.0, 1.0]), Some((2.5, 1.0, 4.0)));
        assert_eq!(spread(Vec::new()), None);
    }
}
