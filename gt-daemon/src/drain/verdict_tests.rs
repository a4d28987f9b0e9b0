//! Drains by their facts, in any order, whole and with pieces missing.

use proptest::prelude::*;

use super::*;
use crate::drain::fact::Way;
use crate::drain::fact::{Hc, Serving};

const SECOND: i64 = 1_000_000;

fn at(second: i64, fact: Fact) -> Timed {
    Timed { ts: second * SECOND, fact }
}

fn hc(second: i64, from: Hc, to: Hc) -> Timed {
    let lb_told = if matches!(to, Hc::Open | Hc::Draining) { 200 } else { 503 };
    at(second, Fact::HcState { from: Some(from), to: Some(to), lb_told: Some(lb_told) })
}

fn active(second: i64, count: u64) -> Timed {
    at(second, Fact::EnvoyActiveCount { downstream: Some(count), upstream: Some(count) })
}

fn end(second: i64, connection: u64, evidence: Option<&str>, cause: &str, sure: bool) -> Timed {
    at(
        second,
        Fact::TcpTeardown(End {
            connection: Some(connection),
            sure,
            ..End::new("fin_received", evidence, cause)
        }),
    )
}

fn gap(second: i64) -> Timed {
    at(second, Fact::Gap { source: Source::Kernel, length_us: 0, why: "the ring was full".to_owned() })
}

fn deleted(second: i64) -> Timed {
    at(second, Fact::PodDeleted { grace_seconds: 30 })
}

/// A drain as it should be.
fn good() -> Vec<Timed> {
    vec![
        deleted(0),
        hc(1, Hc::Open, Hc::Draining),
        active(1, 2),
        active(9, 0),
        hc(10, Hc::Draining, Hc::Closing),
        end(12, 1, None, "lb_flush", true),
        end(12, 2, None, "lb_flush", true),
        hc(20, Hc::Closing, Hc::Closed),
        at(21, Fact::PodGone),
        at(22, Fact::Ended),
    ]
}

fn outcome(facts: &[Timed]) -> Outcome {
    let mut facts = facts.to_vec();
    facts.sort();
    verdict(&facts).unwrap().outcome
}

fn with(further: &[Timed]) -> Vec<Timed> {
    let mut facts = good();
    facts.extend_from_slice(further);
    facts.sort();
    facts
}

/// Exercises a drain that cut nothing, so that it is protected and says by how much.
#[test]
fn protected() {
    let verdict = verdict(&good()).unwrap();
    assert_eq!(verdict.outcome, Outcome::Protected);
    assert_eq!(
        verdict.reasons,
        [
            "nothing was cut: 2 connections ended, none of them with a request in flight; the last request ended 9.0 s after \
             the drain began, 1.0 s before the LB was told 503"
        ]
    );
}

/// Exercises records with lines missing, as far as the others show it, so that they are not protected.
#[test]
fn what_shows_missing_facts() {
    let without_turn: Vec<_> = good()
        .into_iter()
        .filter(|timed| !matches!(timed.fact, Fact::HcState { from: Some(Hc::Open), .. }))
        .collect();
    assert_eq!(outcome(&without_turn), Outcome::Inconclusive);
    let rst = |connection| {
        let fact = Fact::TcpRst { connection: Some(connection), direction: Way::Received, in_flight: true };
        at(12, fact)
    };
    assert_eq!(outcome(&with(&[rst(1)])), Outcome::Protected);
    let told = verdict(&with(&[rst(3)])).unwrap();
    assert_eq!(told.outcome, Outcome::Inconclusive);
    assert!(told.reasons[0].contains("whose end is missing"), "{:?}", told.reasons);
    let mut ended_before = good();
    for timed in ended_before.iter_mut().filter(|timed| timed.fact == Fact::Ended) {
        timed.ts = -SECOND;
    }
    assert_eq!(outcome(&ended_before), Outcome::Inconclusive);
}

/// Exercises a drain that began with nothing in flight: then no last request has ended.
#[test]
fn nothing_in_flight() {
    let mut facts = good();
    facts.retain(|timed| !matches!(timed.fact, Fact::EnvoyActiveCount { .. }));
    facts.insert(1, active(0, 0));
    let reason = verdict(&facts).unwrap().reasons.swap_remove(0);
    let told =
        "; no request was seen in flight from the drain's beginning on, 10.0 s before the LB was told 503";
    assert!(reason.ends_with(told), "{reason}");
}

/// Exercises a cut with one request in flight, which Envoy counts from the client and to the service: it is told as one.
#[test]
fn one_request_is_not_two() {
    let reasons = |count| {
        let facts = with(&[active(10, count), end(12, 3, Some("l7"), "lb_flush", true)]);
        verdict(&facts).unwrap().reasons
    };
    for count in [1, 3] {
        let told = format!("the first 2.0 s after it was told 503 with {count} in flight");
        assert!(reasons(count)[0].ends_with(&told), "{:?}", reasons(count));
    }
}

/// Exercises a count that is told right after the LB was told 503: the one before may be an old one, and is not told.
#[test]
fn counts_at_the_turn() {
    let late = |us| Timed { ts: 10 * SECOND + us, ..active(10, 2) };
    let reason = |us| {
        let cut = end(12, 3, Some("l7"), "lb_flush", true);
        verdict(&with(&[cut, late(us)])).unwrap().reasons.swap_remove(0)
    };
    assert!(reason(99_999).ends_with("after it was told 503"), "{}", reason(99_999));
    assert!(reason(100_000).ends_with("with 0 in flight"), "{}", reason(100_000));
}

/// Exercises cuts by cause, so that each breaks the drain and is told in words; a client's own does not.
#[test]
fn broken() {
    let facts = with(&[end(12, 3, Some("l7"), "lb_flush", true), active(11, 1)]);
    let told = verdict(&facts).unwrap();
    assert_eq!(told.outcome, Outcome::Broken);
    assert_eq!(
        told.reasons[0],
        "the load balancer cut 1 request, the first 2.0 s after it was told 503 with 0 in flight"
    );
    let killed =
        with(&[end(30, 3, Some("socket"), "killed", true), end(30, 4, Some("socket"), "killed", true)]);
    let told = verdict(&killed).unwrap();
    assert_eq!(told.reasons[0], "the grace period ended with 2 in flight: the proxy was killed");
    for cause in ["proxy", "unknown", "lb_flush", "killed"] {
        assert_eq!(outcome(&with(&[end(5, 3, Some("socket"), cause, true)])), Outcome::Broken);
    }
    let aborted = with(&[end(5, 3, Some("l7"), "client_abort", true)]);
    let told = verdict(&aborted).unwrap();
    assert_eq!((told.outcome, told.counts.client_aborts), (Outcome::Protected, 1));
    assert!(told.reasons[1].contains("1 request was given up by the client"));
}

/// Exercises what is missing, so that each piece alone keeps a drain from being protected, and none hides a cut.
#[test]
fn inconclusive() {
    let ends_missing: Vec<_> = good().into_iter().filter(|timed| timed.fact != Fact::Ended).collect();
    let pieces = [
        with(&[gap(5)]),
        with(&[end(5, 3, None, "unknown", false)]),
        with(&[end(5, 3, Some("possible"), "lb_flush", false)]),
        ends_missing,
    ];
    for facts in pieces {
        assert_eq!(outcome(&facts), Outcome::Inconclusive, "{facts:?}");
        let mut cut = facts.clone();
        cut.push(end(6, 9, Some("socket"), "lb_flush", true));
        assert_eq!(outcome(&cut), Outcome::Broken);
    }
    // What may only have been the client's own doing does not matter.
    assert_eq!(outcome(&with(&[end(5, 3, None, "client_abort", false)])), Outcome::Protected);
}

/// Exercises many gaps of one cause, so that they are one reason.
#[test]
fn gaps_of_one_cause() {
    let told = verdict(&with(&[gap(5), gap(6), gap(7)])).unwrap();
    assert_eq!(told.counts.gaps, 3);
    assert_eq!(told.reasons, ["some ends of connections were not seen, 3 times: the ring was full"]);
}

/// Exercises a connection that is judged twice, so that the better word counts, whichever comes first.
#[test]
fn the_better_word_counts() {
    let unsure = end(5, 3, None, "lb_flush", false);
    assert_eq!(outcome(&with(&[unsure.clone(), end(5, 3, None, "lb_flush", true)])), Outcome::Protected);
    assert_eq!(outcome(&with(&[unsure, end(5, 3, Some("l7"), "lb_flush", true)])), Outcome::Broken);
}

/// Exercises beginnings, so that the first sign counts, and without one there is no drain.
#[test]
fn beginnings() {
    let begun = |facts: &[Timed]| Picture::of(facts).map(|picture| picture.begun / SECOND);
    assert_eq!(begun(&good()), Some(0));
    assert_eq!(begun(&[hc(3, Hc::Open, Hc::Closing), deleted(5)]), Some(3));
    assert_eq!(begun(&[hc(3, Hc::Draining, Hc::Open), active(4, 1)]), None);
    assert_eq!(verdict(&[active(4, 1)]), None);
    // A pod that is just gone: what was before is not seen, so it is not protected.
    let gone = [at(7, Fact::PodGone), at(8, Fact::Ended)];
    assert_eq!((begun(&gone), outcome(&gone)), (Some(7), Outcome::Inconclusive));
    assert!(verdict(&gone).unwrap().reasons[0].contains("gone before its health sidecar"));
    let cut = [gone[0].clone(), end(7, 3, Some("socket"), "killed", true), gone[1].clone()];
    assert_eq!(outcome(&cut), Outcome::Broken);
    // A cut before the drain is not its.
    assert_eq!(outcome(&with(&[end(-1, 3, Some("l7"), "client_abort", true)])), Outcome::Protected);
}

fn lb(second: i64, server: usize, serving: Option<Serving>) -> Timed {
    let server = ["a", "b"][server].to_owned();
    at(second, Fact::LbStatus { server, status: Some(String::new()), serving })
}

fn lb_down(second: i64, server: usize, width: i64, predicted: bool) -> Timed {
    let last_up = (width > 0).then_some((second - width) * SECOND);
    at(second, Fact::HaproxyBackendDown { server: ["a", "b"][server].to_owned(), last_up, predicted })
}

fn any_lb_fact() -> impl Strategy<Value = Timed> {
    let second = 0_i64..40;
    let serving = prop::option::of(prop::sample::select(vec![Serving::Up, Serving::NoNew, Serving::Down]));
    prop_oneof![
        4 => (second.clone(), 0_usize..2, serving).prop_map(|(second, server, serving)| lb(second, server, serving)),
        2 => (second.clone(), 0_usize..2, 0_i64..9, any::<bool>())
            .prop_map(|(second, server, width, predicted)| lb_down(second, server, width, predicted)),
        1 => (second, 0_i64..9).prop_map(|(second, length)| {
            at(second, Fact::Gap { source: Source::Lb, length_us: length * SECOND, why: String::new() })
        }),
    ]
}

fn any_fact() -> impl Strategy<Value = Timed> {
    let second = 0_i64..40;
    prop_oneof![
        any_lb_fact(),
        (second.clone(), 0_u64..4, any::<bool>(), any::<bool>(), 0_usize..5).prop_map(
            |(second, id, cut, sure, cause)| {
                let cause = ["client_abort", "lb_flush", "killed", "proxy", "unknown"][cause];
                let evidence = match (cut, sure) {
                    (true, true) => Some("socket"),
                    (true, false) => Some("possible"),
                    (false, _) => None,
                };
                end(second, id, evidence, cause, sure)
            }
        ),
        (second.clone(), 0_u64..3).prop_map(|(second, count)| active(second, count)),
        second.clone().prop_map(gap),
        second.clone().prop_map(deleted),
        second.clone().prop_map(|second| at(second, Fact::Ended)),
        second.clone().prop_map(|second| at(second, Fact::PodGone)),
        (second.clone(), any::<bool>()).prop_map(|(second, open)| {
            if open { hc(second, Hc::Closing, Hc::Open) } else { hc(second, Hc::Open, Hc::Draining) }
        }),
        second.prop_map(|second| hc(second, Hc::Draining, Hc::Closing)),
    ]
}

fn is_word(fact: &Fact, of: &str) -> bool {
    match fact {
        Fact::LbStatus { server, .. } | Fact::HaproxyBackendDown { server, predicted: false, .. } => {
            server == of
        }
        _ => false,
    }
}

proptest! {
    /// Exercises facts as they come, whatever their order, so that the verdict is the same; and without all that LBs said, so that
    /// a drain is never called worse for want of it.
    #[test]
    fn order_and_the_lb(facts in prop::collection::vec(any_fact(), 0..30), seed in any::<prop::sample::Index>()) {
        let mut sorted = facts.clone();
        sorted.sort();
        let mut turned = facts.clone();
        turned.rotate_left(seed.index(facts.len().max(1)));
        turned.reverse();
        turned.sort();
        prop_assert_eq!(verdict(&sorted), verdict(&turned));
        let is_lbs = |timed: &Timed| {
            matches!(
                timed.fact,
                Fact::LbStatus { .. } | Fact::HaproxyBackendDown { .. } | Fact::Gap { source: Source::Lb, .. }
            )
        };
        let without: Vec<_> = sorted.iter().filter(|timed| !is_lbs(timed)).cloned().collect();
        if let (Some(with), Some(without)) = (verdict(&sorted), verdict(&without)) {
            prop_assert!(with.outcome != Outcome::Protected || without.outcome == Outcome::Protected);
            prop_assert!(without.outcome != Outcome::Broken || with.outcome == Outcome::Broken);
        }
    }

    /// Exercises any facts: a gap, an end that is uncertain, or a drain without its end are never protected, and a cut that is
    /// proved always breaks it.
    #[test]
    fn what_it_takes(facts in prop::collection::vec(any_fact(), 0..30)) {
        let mut facts = facts;
        facts.sort();
        let Some(told) = verdict(&facts) else { return Ok(()) };
        let picture = Picture::of(&facts).unwrap();
        let cut = picture.ends.iter().any(|one| one.end.is_cut() && !one.is_clients() && !one.in_doubt);
        prop_assert_eq!(told.outcome == Outcome::Broken, cut);
        // Whatever the LB says, what the sidecar's word makes the LB's or the pod's own stays so.
        let proved = picture.ends.iter().any(|one| one.end.is_cut() && !one.end.is_clients());
        prop_assert!(!proved || cut);
        if told.outcome == Outcome::Protected {
            prop_assert!(picture.ended.is_some() && picture.announced);
            prop_assert!(picture.gaps.iter().all(|(_, source, ..)| *source == Source::Lb));
            prop_assert!(picture.ends.iter().all(|one| one.end.sure && !one.end.is_cut() || one.is_clients()));
        }
        prop_assert!(!told.reasons.is_empty());
    }

    /// Exercises facts that are missing from a drain that was not protected: it does not become so, unless what is missing
    /// is all that was wrong, a gap or an end itself.
    #[test]
    fn less_is_not_better(facts in prop::collection::vec(any_fact(), 0..30), drop in any::<prop::sample::Index>()) {
        let mut facts = facts;
        facts.sort();
        let Some(before) = verdict(&facts) else { return Ok(()) };
        if before.outcome == Outcome::Protected || facts.is_empty() {
            return Ok(());
        }
        let begun = begin(&facts);
        let dropped = facts.remove(drop.index(facts.len()));
        // Without its first sign a drain is another one.
        let is_evidence = match dropped.fact {
            Fact::EnvoyActiveCount { .. } | Fact::Connections { .. } | Fact::Ended => true,
            Fact::PodGone => begun != Some(dropped.ts),
            // That an LB served is evidence, as long as it is known that it is asked at all.
            Fact::LbStatus { serving: Some(Serving::Up | Serving::NoNew), server, .. } => {
                facts.iter().any(|timed| is_word(&timed.fact, &server))
            }
            _ => false,
        };
        if is_evidence && let Some(after) = verdict(&facts) {
            prop_assert!(after.outcome != Outcome::Protected);
        }
    }
}

/// Exercises facts of which none tells of a drain, so that a cut breaks them, a client's does not, and nothing protects them.
#[test]
fn without_any_drain() {
    let quiet = [active(1, 1), active(4, 0), at(5, Fact::Ended)];
    let told = without_drain(&quiet);
    assert!(told.outcome == Outcome::Inconclusive && told.reasons[0].starts_with("nothing drained"));
    let cut = [active(1, 1), end(3, 1, Some("socket"), "killed", true)];
    let told = without_drain(&cut);
    assert_eq!(told.outcome, Outcome::Broken);
    assert!(
        told.reasons[0].ends_with("with 1 request in flight, at 1970-01-01T00:00:03.000000Z"),
        "{told:?}"
    );
    let aborted = [active(1, 1), end(3, 1, Some("l7"), "client_abort", true)];
    assert_eq!(without_drain(&aborted).outcome, Outcome::Inconclusive);
}
