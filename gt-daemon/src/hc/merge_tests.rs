use gt_common::connection::HcState::{self, Closed, Closing, Draining, Fault, Open};
use proptest::{prelude::*, sample::SizeRange};

use super::*;
use crate::clock::Moment;

const SECOND: i64 = 1_000_000;

fn observation(source: Source, what: What, at_us: i64) -> Observation {
    Observation { source, what, at_us, seen: Moment::default(), took_ns: 0, reason: None, active: None }
}

fn log(at: i64, from: HcState, to: HcState) -> Observation {
    observation(Source::Log, What::Transition { from: States::only(from), to }, at)
}

fn since(at: i64, state: HcState) -> Observation {
    observation(Source::State, What::Since(state), at)
}

fn holds(at: i64, states: States) -> Observation {
    observation(Source::Codes, What::Holds { states, asked_us: at - 1000 }, at)
}

fn restarted(at: i64) -> Observation {
    observation(Source::Log, What::Restarted, at)
}

/// Instant, states and source of each change.
fn told(observations: &[Observation]) -> Vec<(i64, States, Source)> {
    merge(observations).into_iter().map(|change| (change.at_us, change.to, change.source)).collect()
}

fn one(state: HcState) -> States {
    States::only(state)
}

/// Exercises a log and polls that agree, so that the log's instants are the ones.
#[test]
fn a_log_has_the_instants() {
    let observations = [
        holds(5 * SECOND, States::UP),
        log(10 * SECOND, Open, Draining),
        since(10 * SECOND + 4, Draining),
        holds(15 * SECOND, States::UP),
        log(20 * SECOND, Draining, Closing),
        holds(20 * SECOND + 50_000, one(Closing)),
        holds(20 * SECOND - 500_000, one(Closing)),
        log(30 * SECOND, Closing, Closed),
        holds(40 * SECOND, States::ENDED),
    ];
    assert_eq!(
        told(&observations),
        [
            (5 * SECOND, States::UP, Source::Codes),
            (10 * SECOND, one(Draining), Source::Log),
            (20 * SECOND, one(Closing), Source::Log),
            (30 * SECOND, one(Closed), Source::Log),
        ]
    );
}

/// Exercises two codes alone, so that a change is found out, with the time before which it did not happen.
#[test]
fn codes_find_changes_out() {
    let observations = [
        holds(SECOND, States::UP),
        holds(6 * SECOND, States::UP),
        holds(11 * SECOND, one(Closing)),
        holds(16 * SECOND, States::ENDED),
        holds(21 * SECOND, States::UP),
    ];
    let changes = merge(&observations);
    assert_eq!(
        changes.iter().map(|change| change.to).collect::<Vec<_>>(),
        [States::UP, one(Closing), States::ENDED, States::UP]
    );
    assert_eq!(changes[1].from, States::UP);
    assert_eq!(changes[1].not_before_us, Some(6 * SECOND - 1000));
    assert_eq!(changes[0].not_before_us, None);
}

/// Exercises `/state` alone, so that its own instants are used and repeated answers are one.
#[test]
fn states_alone() {
    let observations =
        [since(3, Open), since(3, Open), since(10 * SECOND, Draining), since(10 * SECOND, Draining)];
    assert_eq!(
        told(&observations),
        [(3, one(Open), Source::State), (10 * SECOND, one(Draining), Source::State)]
    );
}

/// Exercises a transition that the log does not have, so that a poll's word counts for it, and the gap shows.
#[test]
fn a_gap_in_the_log() {
    let observations =
        [log(10 * SECOND, Open, Draining), since(50 * SECOND, Closing), log(90 * SECOND, Closing, Closed)];
    let changes = merge(&observations);
    assert_eq!(told(&observations)[1], (50 * SECOND, one(Closing), Source::State));
    assert_eq!(changes[2].from, one(Closing));
    let missed = merge(&[log(10 * SECOND, Open, Draining), log(90 * SECOND, Closing, Fault)]);
    assert_eq!((missed[0].to, missed[1].from), (one(Draining), one(Closing)));
}

/// Exercises a container that is started again, so that the old state ends, at the better of two instants.
#[test]
fn restarts_end_the_old_state() {
    let faulty = log(10 * SECOND, Draining, Fault);
    assert_eq!(told(&[faulty.clone(), restarted(50 * SECOND)])[1], (50 * SECOND, States::ANY, Source::Log));
    let dated = [faulty, restarted(50 * SECOND), since(50 * SECOND - 300_000, Open)];
    assert_eq!(told(&dated)[1..], [(50 * SECOND - 300_000, one(Open), Source::State)]);
}

/// Exercises a pod without observations, and one whose hc is silent.
#[test]
fn nothing_to_tell() {
    assert_eq!(merge(&[]), []);
    assert_eq!(merge(&[observation(Source::State, What::Silent, 5)]), []);
}

fn state() -> impl Strategy<Value = HcState> {
    prop::sample::select(vec![Open, Draining, Closing, Closed, Fault])
}

fn any_observation() -> impl Strategy<Value = Observation> {
    let states =
        prop::sample::select(vec![States::UP, States::DOWN, States::ENDED, one(Closing), States::ANY]);
    // Coarse instants, so that many fall together.
    (0_i64..40, 0_u8..6, state(), prop::option::of(state()), states).prop_map(
        |(half, kind, to, from, states)| {
            let at = half * SECOND / 2;
            match kind {
                0 | 1 => log(at, from.unwrap_or(HcState::Unknown), to),
                2 => since(at, to),
                3 | 4 => holds(at, states),
                _ => restarted(at),
            }
        },
    )
}

fn some(size: impl Into<SizeRange>) -> impl Strategy<Value = Vec<Observation>> {
    prop::collection::vec(any_observation(), size)
}

fn is_log(observation: &Observation) -> bool {
    matches!(observation.what, What::Transition { .. })
}

/// Instant and state of every transition line, each once, in order.
fn lines(observations: &[Observation]) -> Vec<(i64, States)> {
    let mut lines: Vec<_> =
        observations.iter().filter(|o| is_log(o)).map(|o| (o.at_us, o.states().unwrap())).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// What a hc that goes through `steps` (gap in microseconds, next state) would be seen doing.
struct Truth(Vec<(i64, HcState)>);

impl Truth {
    fn of(steps: &[(i64, HcState)]) -> Self {
        let mut truth = vec![(0, Open)];
        for (gap, state) in steps {
            let (at, before) = truth[truth.len() - 1];
            if before != *state {
                truth.push((at + gap, *state));
            }
        }
        Self(truth)
    }

    fn at(&self, instant: i64) -> (i64, HcState) {
        self.0.iter().rfind(|(at, _)| *at <= instant).copied().unwrap_or((0, Open))
    }

    fn log(&self) -> Vec<Observation> {
        self.0.windows(2).map(|pair| log(pair[1].0, pair[0].1, pair[1].1)).collect()
    }

    fn codes(&self, instant: i64) -> Observation {
        let states = match self.at(instant).1 {
            Open | Draining => States::UP,
            Closing => one(Closing),
            _ => States::ENDED,
        };
        holds(instant, states)
    }
}

proptest! {
    /// Exercises any observations in any order, so that the order they came in never matters.
    #[test]
    fn order_of_arrival_does_not_matter(
        (observations, shuffled) in some(0..25).prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle()))
    ) {
        prop_assert_eq!(merge(&observations), merge(&shuffled));
    }

    /// Exercises any observations, so that saying a thing twice changes nothing.
    #[test]
    fn repetition_does_not_matter(observations in some(0..15)) {
        let twice: Vec<_> = observations.iter().chain(&observations).cloned().collect();
        prop_assert_eq!(told(&observations), told(&twice));
    }

    /// Exercises any observations, so that each change is one that somebody named, in order of time.
    #[test]
    fn nothing_is_invented(observations in some(0..25)) {
        let changes = merge(&observations);
        prop_assert!(changes.is_sorted_by_key(|change| change.at_us));
        for change in &changes {
            let named = |o: &Observation| {
                o.at_us == change.at_us && o.source == change.source && o.states().unwrap_or(States::ANY) == change.to
            };
            prop_assert!(observations.iter().any(named), "{change:?}");
            prop_assert!(change.not_before_us.is_none_or(|before| before <= change.at_us));
        }
    }

    /// Exercises any observations, so that the log's transitions are all there, each once and where it said.
    #[test]
    fn polls_move_no_line(observations in some(0..25)) {
        let kept: Vec<_> = merge(&observations)
            .into_iter()
            .filter(|change| change.source == Source::Log && change.to != States::ANY)
            .map(|change| (change.at_us, change.to))
            .collect();
        prop_assert_eq!(kept, lines(&observations));
    }

    /// Exercises a hc that is watched by all sources, so that exactly its transitions come out.
    #[test]
    fn a_whole_log_leaves_nothing_to_polls(
        steps in prop::collection::vec((1_i64..30_000_000, state()), 0..8),
        polls in prop::collection::vec((0_i64..200_000_000, any::<bool>()), 0..30),
    ) {
        let truth = Truth::of(&steps);
        let mut observations = truth.log();
        let first_line = truth.0.get(1).map_or(i64::MAX, |first| first.0);
        observations.extend(polls.iter().map(|(instant, by_state)| {
            let (at, state) = truth.at(*instant);
            if *by_state { since(at, state) } else { truth.codes(*instant) }
        }));
        let changes = merge(&observations);
        // Before its first line the log is silent.
        let told: Vec<_> = changes
            .iter()
            .filter(|change| change.at_us >= first_line)
            .map(|change| (change.at_us, change.to.state()))
            .collect();
        prop_assert_eq!(told, truth.0[1..].to_vec());
        prop_assert!(changes.iter().filter(|change| change.at_us < first_line).count() <= 2);
    }

    /// Exercises a hc that only `/state` tells of, so that what is said is true from its instant on.
    #[test]
    fn states_seen_are_true(
        steps in prop::collection::vec((2_500_000_i64..30_000_000, state()), 0..8),
        polls in prop::collection::vec(0_i64..200_000_000, 0..30),
    ) {
        let truth = Truth::of(&steps);
        let observations: Vec<_> =
            polls.iter().map(|instant| truth.at(*instant)).map(|(at, state)| since(at, state)).collect();
        for change in merge(&observations) {
            prop_assert_eq!(truth.at(change.at_us), (change.at_us, change.to.state()));
        }
    }
}
