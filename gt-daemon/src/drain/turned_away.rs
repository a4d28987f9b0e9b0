//! What the load balancer did during a drain, in the words of an SRE. Pure.

use super::{
    fact::{Fact, Serving, Timed},
    reasons::seconds,
    verdict::Picture,
};
use crate::lb::predict::Prediction;

/// Requests that end so soon after its DOWN end by it: microseconds.
const AT_ONCE: i64 = 50_000;

/// The LB's part of a drain.
#[derive(Debug, Default)]
pub(super) struct TurnedAway<'a> {
    /// The first time that it took the pod for down since the drain began.
    down: Option<Down<'a>>,
    /// Its last word, and what that means.
    last: Option<(&'a str, &'a str, Option<Serving>)>,
}

#[derive(Clone, Copy, Debug)]
struct Down<'a> {
    server: &'a str,
    /// No earlier, and no later than this.
    from: i64,
    to: i64,
    predicted: bool,
}

impl<'a> TurnedAway<'a> {
    /// By facts in order.
    pub(super) fn of(facts: &'a [Timed], begun: i64) -> Self {
        let down = facts.iter().filter(|timed| timed.ts >= begun).find_map(|timed| match &timed.fact {
            Fact::HaproxyBackendDown { server, last_up, predicted } => {
                Some(Down { server, from: last_up.unwrap_or(timed.ts), to: timed.ts, predicted: *predicted })
            }
            _ => None,
        });
        let last = facts.iter().rev().find_map(|timed| match &timed.fact {
            Fact::LbStatus { server, status: Some(status), serving } => {
                Some((server.as_str(), status.as_str(), *serving))
            }
            _ => None,
        });
        Self { down, last }
    }

    /// In words; `None` when nothing is known.
    pub(super) fn reason(&self, picture: &Picture<'_>) -> Option<String> {
        match (self.down, self.last) {
            (Some(down), _) => Some(down.reason(picture)),
            (None, Some((server, status, Some(Serving::Up | Serving::NoNew)))) => Some(format!(
                "the load balancer ({server}) had not marked the pod DOWN when it was asked last: {status}"
            )),
            (None, Some((server, status, Some(Serving::Down)))) => Some(format!(
                "the load balancer ({server}) had marked the pod DOWN before the drain began, or it is not known when: {status}"
            )),
            (None, Some((server, status, None))) => Some(format!(
                "the load balancer ({server}) does not tell whether it serves the pod: {status}"
            )),
            (None, None) => None,
        }
    }
}

impl Down<'_> {
    fn reason(self, picture: &Picture<'_>) -> String {
        let Self { server, from, to, predicted } = self;
        let told = picture.turned.filter(|turned| *turned <= to);
        let (since, what) =
            told.map_or((picture.begun, "the drain began"), |turned| (turned, "it was told 503"));
        let when = between(from.max(since) - since, to - since);
        if predicted {
            return format!(
                "the load balancer was to mark the pod DOWN {when} after {what}: predicted from its interval and fall, not seen"
            );
        }
        let mut text = format!("the load balancer ({server}) marked the pod DOWN {when} after {what}");
        match picture.active_zero {
            // Nothing was in flight when the drain began: when the last request had ended is not known.
            Some(zero) if zero == picture.begun => {}
            Some(zero) if zero <= from => {
                text.push_str(&format!(
                    ", {} after the last request had ended",
                    between(from - zero, to - zero)
                ));
            }
            Some(zero) if zero > to.saturating_add(AT_ONCE) => {
                text.push_str(&format!(", {} before the last request ended", seconds(zero - to)));
            }
            Some(_) | None => {}
        }
        text
    }
}

/// Adds when the LB was to turn away after the first 503, where no LB has told anything. Facts are in order, and stay so.
pub(super) fn predict(facts: &mut Vec<Timed>, begun: i64, now: i64, prediction: Prediction) {
    let is_told = |fact: &Fact| {
        matches!(fact, Fact::LbStatus { status: Some(_), .. } | Fact::HaproxyBackendDown { .. })
    };
    if facts.iter().any(|timed| is_told(&timed.fact)) {
        return;
    }
    let told =
        |timed: &Timed, code| matches!(timed.fact, Fact::HcState { lb_told: Some(told), .. } if told == code);
    let Some(turned) = facts.iter().find(|timed| timed.ts >= begun && told(timed, 503)).map(|timed| timed.ts)
    else {
        return;
    };
    let (from, to) = prediction.down(turned);
    // Told 200 again before that, or ended.
    let is_back = facts.iter().any(|timed| timed.ts > turned && timed.ts < to && told(timed, 200));
    if to <= now && !is_back {
        let fact =
            Fact::HaproxyBackendDown { server: "predicted".to_owned(), last_up: Some(from), predicted: true };
        facts.push(Timed { ts: to, fact });
        facts.sort();
    }
}

/// One time where both are the same when told.
fn between(from: i64, to: i64) -> String {
    let (from, to) = (seconds(from), seconds(to));
    if from == to { to } else { format!("{} to {to}", from.trim_end_matches(" s")) }
}

#[cfg(test)]
#[path = "turned_away_tests.rs"]
mod tests;
