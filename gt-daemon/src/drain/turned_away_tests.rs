//! The LB's part in words.

use std::time::Duration;

use super::*;
use crate::drain::{fact::Hc, verdict::verdict};

const TENTH: i64 = 100_000;

fn at(tenth: i64, fact: Fact) -> Timed {
    Timed { ts: tenth * TENTH, fact }
}

fn told(tenth: i64, code: u16) -> Timed {
    let to = if code == 503 { Hc::Closing } else { Hc::Open };
    at(tenth, Fact::HcState { from: None, to: Some(to), lb_told: Some(code) })
}

fn status(tenth: i64, status: &str) -> Timed {
    let serving = Serving::of(status);
    at(tenth, Fact::LbStatus { server: "igw/1".to_owned(), status: Some(status.to_owned()), serving })
}

fn down(tenth: i64, last_up: i64) -> Timed {
    let last_up = Some(last_up * TENTH);
    at(tenth, Fact::HaproxyBackendDown { server: "igw/1".to_owned(), last_up, predicted: false })
}

/// A drain from 0, with nothing in flight from second 10 on.
fn drain(further: &[Timed]) -> Vec<Timed> {
    let active =
        |tenth, count| at(tenth, Fact::EnvoyActiveCount { downstream: Some(count), upstream: Some(count) });
    let mut facts = vec![
        at(0, Fact::PodDeleted { grace_seconds: 60 }),
        active(1, 2),
        active(100, 0),
        at(300, Fact::PodGone),
        at(310, Fact::Ended),
    ];
    facts.extend_from_slice(further);
    facts.sort();
    facts
}

fn reason(further: &[Timed]) -> Option<String> {
    let reasons = verdict(&drain(further)).unwrap().reasons;
    reasons.into_iter().find(|reason| reason.starts_with("the load balancer"))
}

/// Exercises an LB that turned away before and after its 503 and the last request, so that the order is told, and no more
/// exactly than it is known.
#[test]
fn words() {
    let is = |further: &[Timed], expected: &str| assert_eq!(reason(further).as_deref(), Some(expected));
    is(
        &[told(110, 503), status(147, "UP"), down(149, 147)],
        "the load balancer (igw/1) marked the pod DOWN 3.7 to 3.9 s after it was told 503, 4.7 to 4.9 s after the last \
         request had ended",
    );
    is(
        &[told(20, 503), down(40, 40)],
        "the load balancer (igw/1) marked the pod DOWN 2.0 s after it was told 503, 6.0 s before the last request ended",
    );
    is(&[down(101, 98)], "the load balancer (igw/1) marked the pod DOWN 9.8 to 10.1 s after the drain began");
    is(
        &[told(110, 503), status(1, "UP"), status(111, "UP 1/2")],
        "the load balancer (igw/1) had not marked the pod DOWN when it was asked last: UP 1/2",
    );
    is(
        &[status(1, "no check")],
        "the load balancer (igw/1) does not tell whether it serves the pod: no check",
    );
    assert_eq!(reason(&[]), None);
}

/// Exercises predictions, so that they are made only where no LB told anything and the sidecar stayed at 503, and are told as
/// what they are.
#[test]
fn predictions() {
    let predicted = |further: &[Timed], now: i64| {
        let mut facts = drain(further);
        predict(&mut facts, 0, now * TENTH, Prediction { inter: Duration::from_secs(2), fall: 2 });
        let is_one = |timed: &&Timed| matches!(timed.fact, Fact::HaproxyBackendDown { predicted: true, .. });
        assert!(facts.is_sorted());
        (facts.iter().find(is_one).map(|timed| timed.ts / TENTH), verdict(&facts).unwrap().reasons)
    };
    let (ts, reasons) = predicted(&[told(110, 503)], 400);
    assert_eq!(ts, Some(150));
    assert!(reasons.contains(
        &"the load balancer was to mark the pod DOWN 2.0 to 4.0 s after it was told 503: predicted from its interval and fall, \
          not seen"
            .to_owned()
    ));
    assert_eq!(predicted(&[told(110, 503)], 140).0, None);
    assert_eq!(predicted(&[told(110, 503), told(120, 200)], 400).0, None);
    assert_eq!(predicted(&[told(110, 503), status(1, "UP")], 400).0, None);
    assert_eq!(predicted(&[told(110, 503), down(120, 118)], 400).0, None);
    assert_eq!(predicted(&[], 400).0, None);
}
