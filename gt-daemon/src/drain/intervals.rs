//! The three intervals of a drain, as the walkthrough names them.

use serde::{Deserialize, Serialize};

use super::{
    fact::{Fact, Timed},
    verdict::Picture,
};

/// In seconds; `null` where one end is not known. Negative ones are real: the order was the wrong one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// From the drain's beginning until nothing was in flight any more.
    pub drain_to_active_zero: Option<f64>,
    /// From there until the LB took the pod for down.
    pub active_zero_to_lb_down: Option<f64>,
    /// From there until the first RST of a connection of a user.
    pub lb_down_to_first_rst: Option<f64>,
}

/// By facts in order. When the LB took the pod for down is not known to any source yet.
#[must_use]
pub fn intervals(facts: &[Timed]) -> Intervals {
    let Some(picture) = Picture::of(facts) else { return Intervals::default() };
    let lb_down: Option<i64> = None;
    let first_rst = facts
        .iter()
        .find(|timed| matches!(timed.fact, Fact::TcpRst { .. }) && timed.ts >= picture.begun)
        .map(|timed| timed.ts);
    let between = |from: Option<i64>, to: Option<i64>| {
        #[expect(clippy::cast_precision_loss, reason = "microseconds of a drain are exact in a double")]
        to.zip(from).map(|(to, from)| to.saturating_sub(from) as f64 / 1e6)
    };
    Intervals {
        drain_to_active_zero: between(Some(picture.begun), picture.active_zero),
        active_zero_to_lb_down: between(picture.active_zero, lb_down),
        lb_down_to_first_rst: between(lb_down, first_rst),
    }
}
