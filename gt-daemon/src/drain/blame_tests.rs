//! Ends around what the LB did.

use super::*;
use crate::drain::{
    fact::Serving,
    verdict::{Outcome, verdict},
};

const SECOND: i64 = 1_000_000;

fn at(second: i64, fact: Fact) -> Timed {
    Timed { ts: second * SECOND, fact }
}

fn status(second: i64, status: &str) -> Timed {
    let serving = Serving::of(status);
    at(second, Fact::LbStatus { server: "igw/1".to_owned(), status: Some(status.to_owned()), serving })
}

fn down(second: i64, last_up: i64) -> Timed {
    let last_up = Some(last_up * SECOND);
    at(second, Fact::HaproxyBackendDown { server: "igw/1".to_owned(), last_up, predicted: false })
}

fn cut(second: i64, how: &str, cause: &str, evidence: Option<&str>) -> Timed {
    at(
        second,
        Fact::TcpTeardown(End {
            connection: Some(1),
            sure: evidence.is_some(),
            ..End::new(how, evidence, cause)
        }),
    )
}

fn gap(second: i64, length: i64) -> Timed {
    let why = "it did not answer".to_owned();
    at(second, Fact::Gap { source: Source::Lb, length_us: length * SECOND, why })
}

/// The verdict over a drain from second 0 to 30 with these facts.
fn judged(further: &[Timed]) -> (Outcome, Vec<String>) {
    let mut facts =
        vec![at(0, Fact::PodDeleted { grace_seconds: 60 }), at(29, Fact::PodGone), at(30, Fact::Ended)];
    facts.extend_from_slice(further);
    facts.sort();
    let told = verdict(&facts).unwrap();
    (told.outcome, told.reasons)
}

fn outcome(further: &[Timed]) -> Outcome {
    judged(further).0
}

fn abort(second: i64) -> Timed {
    cut(second, "fin_received", "client_abort", Some("l7"))
}

/// Exercises a client that leaves before, at and after the LB's DOWN while the sidecar still says 200: at and after it, it is
/// the LB's doing.
#[test]
fn at_the_lbs_down() {
    let lb = |second| [status(1, "UP"), status(12, "MAINT"), down(12, 10), abort(second)];
    assert_eq!(outcome(&lb(9)), Outcome::Protected);
    let (broken, reasons) = judged(&lb(11));
    assert_eq!(broken, Outcome::Broken);
    assert_eq!(reasons[0], "the load balancer cut 1 request, the first 11.0 s after the drain began");
    assert_eq!(outcome(&lb(20)), Outcome::Broken);
    // Without a word of the LB it is as the sidecar has it.
    assert_eq!(outcome(&[abort(20)]), Outcome::Protected);
    // The pod's own ends are nobody else's.
    let own = cut(20, "fin_sent", "proxy", Some("l7"));
    let (_, reasons) = judged(&[status(1, "DOWN"), own]);
    assert!(reasons[0].contains("the proxy itself"), "{reasons:?}");
    let unknown = judged(&[status(1, "DOWN"), cut(20, "rst_received", "unknown", Some("l7"))]);
    assert!(unknown.1[0].contains("the load balancer cut 1 request"), "{unknown:?}");
}

/// Exercises words that do not count: predictions, those that still serve, and the sidecar's 503, which an LB that is up does
/// not take back.
#[test]
fn what_does_not_count() {
    let predicted =
        Fact::HaproxyBackendDown { server: "predicted".to_owned(), last_up: None, predicted: true };
    assert_eq!(outcome(&[at(5, predicted), abort(9)]), Outcome::Protected);
    for word in ["UP", "UP 1/2", "DRAIN", "NOLB"] {
        assert_eq!(outcome(&[status(1, word), abort(9)]), Outcome::Protected, "{word}");
    }
    let flushed = cut(9, "fin_received", "lb_flush", Some("l7"));
    assert_eq!(outcome(&[status(1, "UP"), flushed]), Outcome::Broken);
}

/// Exercises an LB that is not seen, so that this matters only where a client has left meanwhile, and is told in any case.
#[test]
fn gaps() {
    let up = status(1, "UP");
    let (told, reasons) = judged(&[up.clone(), gap(20, 8)]);
    assert_eq!(told, Outcome::Protected);
    assert!(
        reasons.contains(&"the load balancer's word was not seen for 8.0 s: it did not answer".to_owned())
    );
    assert_eq!(outcome(&[up.clone(), gap(20, 8), abort(11)]), Outcome::Protected);
    let (told, reasons) = judged(&[up.clone(), gap(20, 8), abort(13)]);
    assert_eq!(told, Outcome::Inconclusive);
    assert!(reasons[0].starts_with("1 request was given up by the client, or cut by the load balancer"));
    assert_eq!(outcome(&[gap(20, 0), abort(13)]), Outcome::Inconclusive);
    assert_eq!(outcome(&[gap(20, 0)]), Outcome::Protected);
    let unsure = cut(13, "fin_received", "client_abort", None);
    assert_eq!(outcome(&[up.clone(), unsure.clone()]), Outcome::Protected);
    assert_eq!(outcome(&[up.clone(), gap(20, 8), unsure]), Outcome::Inconclusive);
    // A DOWN between two looks that are far apart.
    assert_eq!(outcome(&[up, status(25, "DOWN"), down(25, 5), abort(13)]), Outcome::Inconclusive);
    assert_eq!(outcome(&[status(1, "no check"), abort(13)]), Outcome::Inconclusive);
    // What is proved stays so.
    let flushed = cut(9, "fin_received", "lb_flush", Some("l7"));
    assert_eq!(outcome(&[gap(20, 0), flushed]), Outcome::Broken);
}
