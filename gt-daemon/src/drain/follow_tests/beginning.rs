//! Drains whose beginning gt did not see, or not the whole of it.

use super::*;

/// Exercises first words of hc by which it had left OPEN before: whoever begins to look then has not seen the drain's
/// beginning. A dated turn to DRAINING is the beginning itself.
#[test]
fn turn_from_open_unseen() {
    let view = view();
    let (draining, closing) = (States::only(HcState::Draining), States::only(HcState::Closing));
    let found =
        |to| Change { from: States::ANY, to, found: true, ..change(3, HcState::Open, HcState::Draining) };
    let dated = |from, to| Change { from, to, ..change(3, HcState::Open, HcState::Draining) };
    for (first, outcome) in [
        (found(draining), Outcome::Inconclusive),
        (found(closing), Outcome::Inconclusive),
        (dated(States::ANY, closing), Outcome::Inconclusive),
        (dated(draining, closing), Outcome::Inconclusive),
        (dated(States::ANY, draining), Outcome::Protected),
        (dated(States::UP, closing), Outcome::Protected),
    ] {
        let mut drains = watched(3, &view);
        drains.hc("u", vec![first.clone()], true, now(3));
        drains.pods(&[View { gone: true, ..view.clone() }], now(5));
        drains.connections("u", 0, 0, now(6));
        drains.tick(now(6));
        let record = drains.tick(now(13)).pop().unwrap();
        assert_eq!(record.outcome(), outcome, "{first:?}: {:?}", record.verdict);
    }
}

/// Exercises a log that tells of a drain that was called off before gt came: it is none of those that gt saw, and is in no
/// count.
#[test]
fn called_off_before_the_watch() {
    let view = view();
    let mut drains = Drains::new(300 * SECOND);
    drains.pods(std::slice::from_ref(&view), now(100));
    let known =
        vec![change(10, HcState::Open, HcState::Draining), change(20, HcState::Draining, HcState::Open)];
    for second in 101..=120 {
        drains.hc("u", known.clone(), true, now(second));
        assert!(drains.tick(now(second)).is_empty());
    }
    assert_eq!(begun(&drains), None);
    // One that is called off while gt looks is told, with the time before as a gap.
    let known = [
        known,
        vec![change(90, HcState::Open, HcState::Draining), change(121, HcState::Draining, HcState::Open)],
    ];
    drains.hc("u", known.concat(), true, now(121));
    drains.tick(now(121));
    let record = drains.tick(now(128)).pop().unwrap();
    assert_eq!((record.begun(), record.outcome()), (Some(90 * SECOND), Outcome::Inconclusive));
}

/// Exercises a proxy that was silent before the drain began: what it had told long before is not what was in flight then.
#[test]
fn active_count_of_long_before() {
    let view = view();
    for (last, zero) in [(9, Some(0.0)), (3, None)] {
        let mut drains = watched(last, &view);
        let known = vec![
            change(10, HcState::Open, HcState::Draining),
            change(12, HcState::Draining, HcState::Closed),
        ];
        drains.hc("u", known, true, now(12));
        drains.pods(&[View { gone: true, ..view.clone() }], now(13));
        drains.connections("u", 0, 0, now(14));
        drains.tick(now(14));
        let record = drains.tick(now(21)).pop().unwrap();
        assert_eq!(record.intervals.drain_to_active_zero, zero, "{:?}", record.facts);
    }
}
