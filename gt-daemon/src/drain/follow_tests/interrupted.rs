//! gt that does not run for a while, and clocks that are set.

use super::*;

fn is_told(record: &Record, words: &str) -> bool {
    record.outcome() == Outcome::Inconclusive
        && record.verdict.reasons.iter().any(|reason| reason.contains(words))
}

/// Exercises a gt that did not run for a while before a drain, over its beginning, and in it, though all sources were heard: only the
/// first says nothing of the drain.
#[test]
fn stalls() {
    let view = view();
    let mut drains = watched(9, &view);
    drains.stalled(7 * SECOND, now(8));
    assert_eq!(drained(&mut drains, &view).map(|record| record.outcome()), Some(Outcome::Protected));
    for second in [10, 13] {
        let mut drains = watched(9, &view);
        drains.stalled(7 * SECOND, now(second));
        let record = drained(&mut drains, &view).unwrap();
        assert!(is_told(&record, "gt itself did not run"), "{:?}", record.verdict);
    }
}

/// The same instant after UTC was set by so many seconds.
fn set(second: i64, by: i64) -> Moment {
    Moment { utc_us: (second + by) * SECOND, ..now(second) }
}

/// An end at this second, of which it is proved that a request was cut.
fn cut(second: i64) -> Judged {
    Judged {
        uid: "u".into(),
        name: Name { namespace: "ns".to_owned(), pod: "pod".to_owned(), container: String::new() },
        at_ns: now(second).monotonic_ns,
        ending: Ending::FinReceived,
        proof: Some(Proof::Socket),
        sure: true,
        again: false,
        cause: Cause::LbFlush,
        hc: None,
        count: 1,
        rst: None,
        last_told: None,
        torn: None,
    }
}

/// The rest of a drain after UTC was set, in which all sources are heard, with or without a cut in its middle.
fn rest(drains: &mut Drains, view: &View, by: i64, is_cut: bool) -> Record {
    let closed = Change { at_us: (15 + by) * SECOND, ..change(15, HcState::Closing, HcState::Closed) };
    for second in 13..=16 {
        let at = set(second, by);
        let known = if second < 15 { vec![] } else { vec![closed.clone()] };
        drains.hc("u", known, true, at);
        drains.envoy("u", (Some(0), Some(0)), Some(false), at);
        drains.connections("u", 1, 0, at);
        if is_cut && second == 14 {
            drains.judged(&cut(14), at);
        }
        assert!(drains.tick(at).is_empty());
    }
    drains.pods(&[View { gone: true, ..view.clone() }], set(17, by));
    drains.connections("u", 0, 0, set(18, by));
    assert!(drains.tick(set(18, by)).is_empty());
    let mut over = drains.tick(set(25, by));
    assert_eq!(over.len(), 1, "set by {by} s");
    assert!(drains.tick(set(400, by)).is_empty(), "set by {by} s: another drain that was none");
    over.remove(0)
}

/// Exercises a clock that is set in a drain, by an hour in either direction, and before one: a drain in which it was set has a record
/// up to then and one from then on, of which neither is protected, and no cut is left out of both.
#[test]
fn a_clock_that_is_set() {
    for by in [3_600, -3_600] {
        for (before, after) in [(false, false), (true, false), (false, true)] {
            let view = view();
            let mut drains = watched(9, &view);
            drains.hc("u", vec![change(10, HcState::Open, HcState::Closing)], true, now(10));
            if before {
                drains.judged(&cut(11), now(11));
            }
            let first = drains.clock_was_set(by * SECOND, set(12, by));
            let way = if by > 0 { "forward" } else { "back" };
            let why = format!("the clock was set {way} by 3600.0 s");
            assert_eq!(first.len(), 1);
            let second = rest(&mut drains, &view, by, after);
            for (record, has_cut) in [(&first[0], before), (&second, after)] {
                let verdict = &record.verdict;
                assert_eq!(verdict.counts.cuts, u64::from(has_cut), "{by} {verdict:?}");
                assert!(
                    has_cut && record.outcome() == Outcome::Broken || is_told(record, &why),
                    "{verdict:?}"
                );
                assert!(record.facts.is_sorted());
            }
        }
    }
}

/// Exercises a clock that is set while nothing drains and after a drain is over, so that the first says nothing of the drain that comes,
/// and the second makes no drain of what is over.
#[test]
fn a_clock_that_is_set_at_other_times() {
    let view = view();
    let mut drains = watched(5, &view);
    // Set so that it is right at last: what follows is at the usual seconds.
    assert!(drains.clock_was_set(-3_600 * SECOND, now(6)).is_empty());
    for second in 6..=9 {
        drains.hc("u", vec![], true, now(second));
        drains.envoy("u", (Some(0), Some(0)), Some(false), now(second));
        drains.connections("u", 2, 0, now(second));
    }
    let record = drained(&mut drains, &view).unwrap();
    assert_eq!(record.outcome(), Outcome::Protected, "{:?}", record.verdict);
    assert!(drains.clock_was_set(3_600 * SECOND, set(30, 3_600)).is_empty());
    assert!(drains.tick(set(60, 3_600)).is_empty());
    assert_eq!(begun(&drains), Some(9 * SECOND), "it stays shown");
}

/// Exercises an API server whose clock is ahead, so that what is cut between the request as it came and its stamp is the drain's.
#[test]
fn a_deletion_in_the_future() {
    let view = view();
    let mut drains = watched(9, &view);
    let deleted = View { deletion: Some((20 * SECOND, 30)), ..view.clone() };
    drains.pods(std::slice::from_ref(&deleted), now(10));
    assert_eq!(begun(&drains), Some(10 * SECOND));
    drains.judged(&cut(12), now(12));
    drains.pods(&[View { gone: true, ..deleted }], now(14));
    drains.connections("u", 0, 0, now(15));
    drains.tick(now(15));
    let record = drains.tick(now(22)).pop().unwrap();
    assert_eq!((record.outcome(), record.verdict.counts.cuts), (Outcome::Broken, 1), "{:?}", record.verdict);
}
