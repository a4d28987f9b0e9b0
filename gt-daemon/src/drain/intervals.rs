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

/// The instants between which they lie, UTC microseconds; `None` for one that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instants {
    /// The drain began.
    pub begun: Option<i64>,
    /// The last instant from which on nothing was in flight.
    pub active_zero: Option<i64>,
    /// The LB was first seen to take the pod for down.
    pub lb_down: Option<i64>,
    /// The first RST of a connection of a user.
    pub first_rst: Option<i64>,
}

/// By facts in order. What was predicted of the LB is no interval's end.
#[must_use]
pub fn instants(facts: &[Timed]) -> Instants {
    let Some(picture) = Picture::of(facts) else { return Instants::default() };
    let first = |is_it: fn(&Fact) -> bool| {
        facts.iter().find(|timed| is_it(&timed.fact) && timed.ts >= picture.begun).map(|timed| timed.ts)
    };
    Instants {
        begun: Some(picture.begun),
        active_zero: picture.active_zero,
        lb_down: first(|fact| matches!(fact, Fact::HaproxyBackendDown { predicted: false, .. })),
        first_rst: first(|fact| matches!(fact, Fact::TcpRst { .. })),
    }
}

/// By facts in order.
#[must_use]
pub fn intervals(facts: &[Timed]) -> Intervals {
    let Instants { begun, active_zero, lb_down, first_rst } = instants(facts);
    let between = |from: Option<i64>, to: Option<i64>| {
        #[expect(clippy::cast_precision_loss, reason = "microseconds of a drain are exact in a double")]
        to.zip(from).map(|(to, from)| to.saturating_sub(from) as f64 / 1e6)
    };
    Intervals {
        drain_to_active_zero: between(begun, active_zero),
        active_zero_to_lb_down: between(active_zero, lb_down),
        lb_down_to_first_rst: between(lb_down, first_rst),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::fact::Way;

    fn at(second: i64, fact: Fact) -> Timed {
        Timed { ts: second * 1_000_000, fact }
    }

    fn down(second: i64, predicted: bool) -> Timed {
        at(second, Fact::HaproxyBackendDown { server: "igw/1".to_owned(), last_up: None, predicted })
    }

    fn active(second: i64, count: u64) -> Timed {
        at(second, Fact::EnvoyActiveCount { downstream: Some(count), upstream: Some(count) })
    }

    /// Exercises an LB that was early and one that was late, a prediction, and a down before the drain, so that the order
    /// shows in the sign, and only what was seen counts.
    #[test]
    fn around_the_lb() {
        let rst = at(13, Fact::TcpRst { connection: Some(1), direction: Way::Received, in_flight: true });
        let of = |downs: &[Timed]| {
            let mut facts =
                vec![at(5, Fact::PodDeleted { grace_seconds: 30 }), active(6, 1), active(10, 0), rst.clone()];
            facts.extend_from_slice(downs);
            facts.sort();
            let Intervals { drain_to_active_zero, active_zero_to_lb_down, lb_down_to_first_rst } =
                intervals(&facts);
            assert_eq!(drain_to_active_zero, Some(5.0));
            (active_zero_to_lb_down, lb_down_to_first_rst)
        };
        assert_eq!(of(&[down(12, false)]), (Some(2.0), Some(1.0)));
        assert_eq!(of(&[down(8, false)]), (Some(-2.0), Some(5.0)));
        assert_eq!(of(&[down(14, false), down(20, false)]), (Some(4.0), Some(-1.0)));
        assert_eq!(of(&[down(12, true)]), (None, None));
        assert_eq!(of(&[down(4, false)]), (None, None));
    }
}
