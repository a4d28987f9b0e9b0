//! Pods over their drains, told in the order of a day and in others.

use gt_common::connection::HcState;

use super::*;
use crate::{
    drain::verdict::Outcome,
    hc::{observation::Source as Mouth, states::States},
};

const SECOND: i64 = 1_000_000;

fn now(second: i64) -> Moment {
    Moment { monotonic_ns: u64::try_from(second).unwrap() * 1_000_000_000, utc_us: second * SECOND }
}

fn view() -> View {
    View {
        uid: "u".into(),
        namespace: "ns".to_owned(),
        pod: "pod".to_owned(),
        deletion: None,
        gone: false,
        attributed: true,
        has_hc: true,
        has_envoy: true,
    }
}

fn change(second: i64, from: HcState, to: HcState) -> Change {
    Change {
        at_us: second * SECOND,
        not_before_us: None,
        from: States::only(from),
        to: States::only(to),
        source: Mouth::Log,
        reason: None,
    }
}

/// A pod that is watched from the first second, whose sources answer every second from then on until `last`.
fn watched(last: i64, view: &View) -> Drains {
    let mut drains = Drains::default();
    drains.pods(std::slice::from_ref(view), now(0));
    for second in 1..=last {
        drains.hc("u", vec![], true, now(second));
        drains.envoy("u", (Some(0), Some(0)), Some(false), now(second));
        drains.connections("u", 2, 0, now(second));
    }
    drains
}

/// The rest of a drain that began at the 10th second, without a cut.
fn drained(drains: &mut Drains, view: &View) -> Option<Record> {
    let changes = [
        change(10, HcState::Open, HcState::Draining),
        change(12, HcState::Draining, HcState::Closing),
        change(14, HcState::Closing, HcState::Closed),
    ];
    for second in 10..=16 {
        let known = changes.iter().filter(|change| change.at_us <= second * SECOND).cloned().collect();
        drains.hc("u", known, true, now(second));
        drains.envoy("u", (Some(0), Some(0)), Some(false), now(second));
        drains.connections("u", 1, 0, now(second));
        assert!(drains.tick(now(second)).is_empty());
    }
    let gone = View { gone: true, deletion: Some((9 * SECOND, 30)), ..view.clone() };
    drains.pods(&[gone], now(17));
    drains.connections("u", 0, 0, now(18));
    assert!(drains.tick(now(18)).is_empty(), "late words are waited for");
    drains.tick(now(25)).pop()
}

/// Exercises a drain from first to last, so that it is one record with the facts in order, and is told once.
#[test]
fn from_first_to_last() {
    let view = view();
    let mut drains = watched(9, &view);
    assert!(drains.draining().is_empty());
    let record = drained(&mut drains, &view).unwrap();
    assert_eq!(record.outcome(), Outcome::Protected, "{:?}", record.verdict);
    assert_eq!(record.begun(), Some(9 * SECOND));
    assert!(record.facts.is_sorted());
    assert!(drains.tick(now(60)).is_empty());
}

/// Exercises a silent source, so that the drain is not protected however quiet it was; and one that is silent only after
/// the last connection, which is ordinary.
#[test]
fn silence() {
    let view = view();
    let mut drains = watched(2, &view);
    // Nothing is heard of the proxy from the second on.
    for second in 3..=20 {
        let changes = vec![change(5, HcState::Open, HcState::Draining)];
        drains.hc("u", changes, true, now(second));
        drains.connections("u", 1, 0, now(second));
    }
    drains.pods(&[View { gone: true, ..view.clone() }], now(21));
    drains.connections("u", 0, 0, now(21));
    drains.tick(now(21));
    let record = drains.tick(now(30)).pop().unwrap();
    assert_eq!(record.outcome(), Outcome::Inconclusive);
    assert!(
        record.verdict.reasons[0].contains("the proxy's counts were not seen for 15.0 s"),
        "{:?}",
        record.verdict
    );
}

/// Exercises a pod that gt came to late, so that the time before is a gap.
#[test]
fn too_late() {
    let view = view();
    let mut drains = Drains::default();
    drains.pods(std::slice::from_ref(&view), now(12));
    let record = drained(&mut drains, &view).unwrap();
    assert_eq!(record.outcome(), Outcome::Inconclusive);
    assert!(record.verdict.reasons[0].contains("gt did not watch it yet"), "{:?}", record.verdict);
}

/// Exercises losses in the kernel, so that every drain that goes on is uncertain, and none that began later.
#[test]
fn losses() {
    let view = view();
    let mut drains = watched(9, &view);
    drains.lost("the ring was full", now(5));
    assert_eq!(drained(&mut drains, &view).map(|record| record.outcome()), Some(Outcome::Protected));
    let mut drains = watched(9, &view);
    drains.hc("u", vec![change(9, HcState::Open, HcState::Draining)], true, now(9));
    drains.lost("the ring was full", now(10));
    assert_eq!(drained(&mut drains, &view).map(|record| record.outcome()), Some(Outcome::Inconclusive));
}

/// Exercises a drain that is called off, so that it has its record, and the next one is another.
#[test]
fn called_off() {
    let view = view();
    let mut drains = watched(9, &view);
    let changes =
        vec![change(9, HcState::Open, HcState::Draining), change(11, HcState::Draining, HcState::Open)];
    for second in 10..=17 {
        drains.hc("u", changes.clone(), true, now(second));
        drains.envoy("u", (Some(0), Some(0)), None, now(second));
    }
    let record = [12, 18].into_iter().flat_map(|second| drains.tick(now(second))).next().unwrap();
    assert_eq!((record.outcome(), record.begun()), (Outcome::Protected, Some(9 * SECOND)));
    assert!(drains.draining().is_empty());
    let mut again = changes;
    again.push(change(20, HcState::Open, HcState::Draining));
    drains.hc("u", again, true, now(20));
    assert_eq!(drains.begun().map(|(_, begun)| begun).collect::<Vec<_>>(), [20 * SECOND]);
}

/// Exercises a pod that is forgotten before its drain has ended, so that what is known is told and called uncertain.
#[test]
fn forgotten() {
    let view = view();
    let mut drains = watched(9, &view);
    drains.pods(&[View { deletion: Some((9 * SECOND, 30)), ..view }], now(10));
    let record = drains.pods(&[], now(11)).pop().unwrap();
    assert_eq!(record.outcome(), Outcome::Inconclusive);
    assert!(drains.pods.is_empty());
}
