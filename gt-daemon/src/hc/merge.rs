//! All observations of one pod's hc, put into one order. Pure: the order in which they came does not matter.
//!
//! What a log says stands, at its instants. What `/state` says since when counts where the log is silent. What was merely
//! seen at some instant counts where both are silent, and then only says that something changed until then. So a
//! change that a poll found out may give way to an earlier one when the log's line comes.

use super::{
    observation::{Observation, Source, What},
    states::States,
};

/// Instants of one transition from different mouths differ by this much at most, in microseconds: a stamp in whole
/// seconds, a line that waited for the runtime, a poll that was answered just before.
const SAME: i64 = 2_000_000;

/// From this instant on other states are possible than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// UTC, microseconds since 1970.
    pub at_us: i64,
    /// Whether it was only found out at this instant, and may have happened before; else somebody named the instant.
    pub found: bool,
    /// For a change that was only found out: it did not happen before this, where that is known. For one that was named: from then on
    /// there may have been others between, of which nobody told.
    pub not_before_us: Option<i64>,
    /// Just before. Where it is not what the change before led to, a transition between was not told.
    pub from: States,
    pub to: States,
    pub source: Source,
    pub reason: Option<Box<str>>,
}

/// An instant with states from then on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    at_us: i64,
    /// Of two at one instant the log has the last word.
    source: Source,
    to: States,
    /// `None` where the source does not tell.
    from: Option<States>,
    reason: Option<Box<str>>,
}

/// What held at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Hold {
    at_us: i64,
    asked_us: i64,
    states: States,
    source: Source,
}

/// The changes that the observations tell of, in order of time.
#[must_use]
pub fn merge<'a>(observations: impl IntoIterator<Item = &'a Observation>) -> Vec<Change> {
    let (mut log, mut since, mut restarts, mut holds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for observation in observations {
        let Observation { source, at_us, .. } = *observation;
        let point = |to, from| Point { at_us, source, to, from, reason: observation.reason.clone() };
        match observation.what {
            What::Transition { from, to } => {
                log.push(point(States::only(to), Some(from).filter(|from| *from != States::ANY)));
            }
            What::Since(state) => since.push(point(States::only(state), None)),
            What::Restarted => restarts.push(point(States::ANY, None)),
            What::Holds { states, asked_us } => {
                holds.push(Hold { at_us, asked_us: asked_us.min(at_us), states, source });
            }
            What::Silent => {}
        }
    }
    let points = exact(log, since, restarts);
    holds.sort_unstable();
    walk(&points, &holds)
}

/// The instants that somebody named, in order.
fn exact(mut log: Vec<Point>, mut since: Vec<Point>, mut restarts: Vec<Point>) -> Vec<Point> {
    // A restart that `/state` dates better is told by that.
    restarts.retain(|restart| !since.iter().any(|point| are_near(point, restart)));
    log.extend(restarts);
    log.sort_unstable();
    // A line that was read twice tells of one transition.
    log.dedup_by(|later, first| (later.at_us, later.to) == (first.at_us, first.to));
    since.sort_unstable();
    since.dedup_by(|later, first| (later.at_us, later.to) == (first.at_us, first.to));
    since.retain(|point| {
        let told = |known: &Point| known.to == point.to && are_near(known, point);
        let held =
            log.iter().rfind(|known| known.at_us <= point.at_us).is_some_and(|known| known.to == point.to);
        !held && !log.iter().any(told)
    });
    log.extend(since);
    log.sort_unstable();
    log
}

fn are_near(one: &Point, other: &Point) -> bool {
    one.at_us.saturating_sub(other.at_us).saturating_abs() <= SAME
}

/// Goes through points and holds in order of time.
fn walk(points: &[Point], holds: &[Hold]) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut current = States::ANY;
    let mut last_seen = None;
    let (mut points_left, mut holds_left) = (points.iter().peekable(), holds.iter().peekable());
    loop {
        let next_hold = holds_left.peek().map(|hold| hold.at_us);
        if let Some(point) = points_left.next_if(|point| next_hold.is_none_or(|hold| point.at_us <= hold)) {
            changes.push(Change {
                at_us: point.at_us,
                found: false,
                not_before_us: last_seen.filter(|_| is_passed_over(current, point)),
                from: point.from.unwrap_or(current),
                to: point.to,
                source: point.source,
                reason: point.reason.clone(),
            });
            current = point.to;
            last_seen = Some(point.at_us);
            continue;
        }
        let Some(hold) = holds_left.next() else { return changes };
        let narrows = current == States::ANY && hold.states != States::ANY;
        if (narrows || !current.meets(hold.states)) && !is_explained(points, hold) {
            changes.push(Change {
                at_us: hold.at_us,
                found: true,
                not_before_us: last_seen,
                from: current,
                to: hold.states,
                source: hold.source,
                reason: None,
            });
            current = hold.states;
        }
        last_seen = last_seen.max(Some(hold.asked_us));
    }
}

/// Whether hc has gone through states between that nobody told: `/state` does not say from where it came.
fn is_passed_over(current: States, point: &Point) -> bool {
    point.source == Source::State && point.from.is_none() && !current.may_be_followed_by(point.to)
}

/// Whether somebody named an instant near this one, before or after which the states seen were possible: then
/// nothing else need have happened.
fn is_explained(points: &[Point], hold: &Hold) -> bool {
    let near = hold.asked_us.saturating_sub(SAME)..=hold.at_us.saturating_add(SAME);
    points.iter().enumerate().filter(|(_, point)| near.contains(&point.at_us)).any(|(index, point)| {
        let before = index.checked_sub(1).and_then(|index| points.get(index)).map(|point| point.to);
        let before = point.from.or(before).filter(|states| *states != States::ANY);
        point.to != States::ANY && point.to.meets(hold.states)
            || before.is_some_and(|before| before.meets(hold.states))
    })
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
