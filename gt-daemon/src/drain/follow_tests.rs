//! Pods over their drains, told in the order of a day and in others.

use gt_common::connection::HcState;

use super::*;
use crate::{
    correlate::{
        cause::Cause,
        torn::{Direction, Ending, Id, Proof},
    },
    drain::{
        fact::{Fact, Source, Timed},
        verdict::Outcome,
    },
    hc::{observation::Source as Mouth, states::States},
    pods::owners::Name,
};

#[path = "follow_tests/beginning.rs"]
mod beginning;
#[path = "follow_tests/interrupted.rs"]
mod interrupted;
#[path = "follow_tests/order.rs"]
mod order;

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

fn begun(drains: &Drains) -> Option<i64> {
    drains.begun().next().and_then(|(_, begun)| begun)
}

fn change(second: i64, from: HcState, to: HcState) -> Change {
    Change {
        at_us: second * SECOND,
        found: false,
        not_before_us: None,
        from: States::only(from),
        to: States::only(to),
        source: Mouth::Log,
        reason: None,
    }
}

/// A pod that is watched from the first second, whose sources answer every second from then on until `last`.
fn watched(last: i64, view: &View) -> Drains {
    let mut drains = Drains::new(300 * SECOND);
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

/// Exercises a proxy whose counts begin anew in a drain (it was started anew, or a listener's were taken away), so that what
/// they had last is a gap; before the drain it is none.
#[test]
fn counts_that_begin_anew() {
    for (anew, outcome) in [(5, Outcome::Protected), (13, Outcome::Inconclusive)] {
        let view = view();
        let mut drains = watched(9, &view);
        for second in 1..=16 {
            drains.counts("u", if second < anew { 7 } else { 8 }, now(second));
        }
        let record = drained(&mut drains, &view).unwrap();
        assert_eq!(record.outcome(), outcome, "{:?}", record.verdict);
    }
}

/// Exercises an hc that tells codes only: what was cut between two polls is the drain's; and one that told 503 when it was
/// first asked may have drained for long.
#[test]
fn found_out() {
    let codes = |at_us, not_before_us, from, to| Change {
        at_us,
        found: true,
        not_before_us,
        from,
        to,
        source: Mouth::Codes,
        reason: None,
    };
    let view = view();
    let mut drains = watched(9, &view);
    drains.hc("u", vec![codes(9 * SECOND, Some(4 * SECOND), States::UP, States::ENDED)], true, now(9));
    assert_eq!(begun(&drains), Some(4 * SECOND));
    for (from, outcome) in [(States::UP, Outcome::Protected), (States::ANY, Outcome::Inconclusive)] {
        let mut drains = watched(3, &view);
        drains.hc("u", vec![codes(3 * SECOND, None, from, States::ENDED)], true, now(3));
        drains.pods(&[View { gone: true, ..view.clone() }], now(5));
        drains.connections("u", 0, 0, now(6));
        drains.tick(now(6));
        let record = drains.tick(now(13)).pop().unwrap();
        assert_eq!(record.outcome(), outcome, "{:?}", record.verdict);
    }
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
    let mut drains = Drains::new(300 * SECOND);
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
    drains.lost(Source::Kernel, "the ring was full", now(5));
    assert_eq!(drained(&mut drains, &view).map(|record| record.outcome()), Some(Outcome::Protected));
    let mut drains = watched(9, &view);
    drains.hc("u", vec![change(9, HcState::Open, HcState::Draining)], true, now(9));
    drains.lost(Source::Kernel, "the ring was full", now(10));
    assert_eq!(drained(&mut drains, &view).map(|record| record.outcome()), Some(Outcome::Inconclusive));
}

/// Exercises a daemon that stops in a drain, so that there is a record that does not overclaim; and none of a pod that does
/// not drain.
#[test]
fn stopped() {
    let view = view();
    assert!(watched(9, &view).stop(now(10)).is_empty());
    let mut drains = watched(9, &view);
    drains.hc("u", vec![change(9, HcState::Open, HcState::Draining)], true, now(9));
    let records = drains.stop(now(10));
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].outcome(), Outcome::Inconclusive);
    assert!(drains.stop(now(11)).is_empty());
}

/// Exercises an RST that comes after its connection was judged, so that the record has it at its instant.
#[test]
fn late_reset() {
    let view = view();
    let mut drains = watched(9, &view);
    let late = LateReset {
        uid: "u".into(),
        id: Id { socket: 1, since_ns: 2 },
        direction: Direction::Received,
        in_flight: true,
        at_ns: 13_000_000_000,
    };
    drains.late_reset(&late, now(15));
    let record = drained(&mut drains, &view).unwrap();
    let is_rst = |timed: &&Timed| matches!(timed.fact, Fact::TcpRst { in_flight: true, .. });
    assert_eq!(record.facts.iter().find(is_rst).map(|timed| timed.ts), Some(13 * SECOND));
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
    assert_eq!(begun(&drains), Some(20 * SECOND));
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

/// The proxy's word on an end at this second.
fn judged(second: u64, sure: bool, proof: Option<Proof>) -> Judged {
    Judged {
        uid: "u".into(),
        name: Name { namespace: "ns".to_owned(), pod: "pod".to_owned(), container: String::new() },
        at_ns: second * 1_000_000_000,
        ending: Ending::StreamReset,
        proof,
        sure,
        again: false,
        cause: Cause::LbFlush,
        hc: None,
        count: 1,
        rst: None,
        last_told: None,
        torn: None,
    }
}

fn count(record: &Record, wanted: impl Fn(&Fact) -> bool) -> usize {
    record.facts.iter().filter(|timed| wanted(&timed.fact)).count()
}

/// Exercises deletions and ends that are there at first sight, that come later and that are told again and again, so that
/// each is noted once, at the instant of the request and when it was seen.
#[test]
fn each_once() {
    let alone = View { has_hc: false, has_envoy: false, ..view() };
    let deleted = View { deletion: Some((20 * SECOND, 30)), ..alone.clone() };
    let sooner = View { deletion: Some((23 * SECOND, 5)), ..alone.clone() };
    let gone = View { gone: true, ..sooner.clone() };
    let lives: [(&[&View], usize, i64); 4] = [
        (&[&alone, &deleted, &deleted, &sooner, &gone, &gone], 2, 20),
        (&[&deleted, &deleted, &gone], 2, 20),
        (&[&gone, &gone], 1, 23),
        (&[&alone, &View { gone: true, ..alone.clone() }], 0, 25),
    ];
    for (life, deletions, began) in lives {
        let mut drains = Drains::new(300 * SECOND);
        for view in life {
            // Twice at one instant, too.
            drains.pods(&[(*view).clone()], now(24));
            drains.pods(&[(*view).clone()], now(24));
            drains.pods(&[(*view).clone()], now(25));
        }
        drains.connections("u", 0, 0, now(26));
        assert!(drains.tick(now(26)).is_empty());
        let record = drains.tick(now(33)).pop().unwrap();
        assert_eq!(count(&record, |fact| matches!(fact, Fact::PodDeleted { .. })), deletions, "{life:?}");
        assert_eq!(count(&record, |fact| *fact == Fact::PodGone), 1, "{life:?}");
        let began = if deletions == 0 { 24 } else { began };
        assert_eq!(
            (record.begun(), begun(&drains)),
            (Some(began * SECOND), Some(began * SECOND)),
            "{life:?}"
        );
        assert!(drains.draining().is_empty() && drains.tick(now(90)).is_empty());
    }
}

/// Exercises a pod that is just gone, so that its drain begins there and is not called protected; and one whose source names
/// it again, so that nothing goes on.
#[test]
fn gone_without_a_word() {
    let view = View { has_hc: false, has_envoy: false, ..view() };
    let mut drains = Drains::new(300 * SECOND);
    drains.pods(std::slice::from_ref(&view), now(1));
    let gone = View { gone: true, ..view.clone() };
    drains.pods(std::slice::from_ref(&gone), now(9));
    assert_eq!((drains.draining().len(), begun(&drains)), (1, Some(9 * SECOND)));
    drains.pods(std::slice::from_ref(&view), now(10));
    assert_eq!((drains.draining().len(), begun(&drains)), (0, None));
    drains.pods(&[gone], now(20));
    drains.connections("u", 0, 0, now(20));
    drains.tick(now(20));
    let record = drains.tick(now(27)).pop().unwrap();
    assert_eq!((record.begun(), record.outcome()), (Some(20 * SECOND), Outcome::Inconclusive));
    // Another life under the same UID.
    drains.pods(std::slice::from_ref(&view), now(30));
    assert_eq!(begun(&drains), None);
    drains.pods(&[View { deletion: Some((31 * SECOND, 5)), ..view }], now(32));
    assert_eq!(begun(&drains), Some(31 * SECOND));
}

/// Exercises connections that outlive their pod, come back after the last one, or are never seen, so that an end that was not
/// seen is not told.
#[test]
fn the_last_connection() {
    let view = View { has_hc: false, has_envoy: false, ..view() };
    let gone = View { deletion: Some((9 * SECOND, 1)), gone: true, ..view.clone() };
    let follow = |gone: &View, counts: &[(i64, u64)]| {
        let mut drains = Drains::new(30 * SECOND);
        drains.pods(std::slice::from_ref(&view), now(1));
        drains.connections("u", 0, 0, now(8));
        drains.pods(std::slice::from_ref(gone), now(10));
        let mut records = Vec::new();
        for (second, count) in counts {
            drains.connections("u", *count, 0, now(*second));
            records.extend(drains.tick(now(*second)));
        }
        records.extend((40..60).flat_map(|second| drains.tick(now(second))));
        assert_eq!(records.len(), 1);
        let ended = records[0].facts.iter().find(|timed| timed.fact == Fact::Ended);
        (records[0].outcome(), ended.map(|timed| timed.ts / SECOND))
    };
    assert_eq!(follow(&gone, &[(10, 1), (20, 0), (27, 0)]), (Outcome::Protected, Some(20)));
    assert_eq!(follow(&gone, &[(10, 0), (12, 1), (14, 0), (21, 0)]), (Outcome::Protected, Some(14)));
    assert_eq!(follow(&gone, &[(10, 1), (20, 1), (30, 1)]), (Outcome::Inconclusive, None));
    assert_eq!(follow(&gone, &[]), (Outcome::Inconclusive, None));
    // In the host's network, where no socket is known to be its.
    let nowhere = View { attributed: false, ..gone };
    assert_eq!(follow(&nowhere, &[]), (Outcome::Inconclusive, None));
}

/// Exercises a drain that begins anew just after it was called off, so that each has its own ends.
#[test]
fn two_in_a_row() {
    let view = View { has_hc: true, has_envoy: false, ..view() };
    let mut drains = watched(9, &view);
    let changes = [
        change(10, HcState::Open, HcState::Draining),
        change(12, HcState::Draining, HcState::Open),
        change(14, HcState::Open, HcState::Draining),
        change(20, HcState::Draining, HcState::Open),
    ];
    let mut records = Vec::new();
    for second in 10..30_u32 {
        let known =
            changes.iter().filter(|change| change.at_us <= i64::from(second) * SECOND).cloned().collect();
        drains.hc("u", known, true, now(second.into()));
        if second == 15 {
            drains.judged(&judged(15, true, Some(Proof::L7)), now(15));
        }
        records.extend(drains.tick(now(second.into())));
    }
    // The first call-off did not stand when it was to be told: the drain went on.
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].begun(), records[0].outcome()), (Some(10 * SECOND), Outcome::Broken));
}

/// Exercises a beginning that is told late, so that the silence before it was known counts all the same.
#[test]
fn told_late() {
    let view = view();
    let mut drains = watched(2, &view);
    for second in [2, 12] {
        drains.hc("u", vec![], true, now(second));
        drains.envoy("u", (Some(0), Some(0)), None, now(second));
    }
    let gone = View { deletion: Some((3 * SECOND, 30)), gone: true, ..view };
    drains.pods(&[gone], now(13));
    drains.connections("u", 1, 0, now(13));
    drains.connections("u", 0, 0, now(14));
    drains.tick(now(14));
    let record = drains.tick(now(21)).pop().unwrap();
    let is_gap = |source| move |fact: &Fact| matches!(fact, Fact::Gap { source: of, length_us: 9_000_000, .. } if *of == source);
    assert_eq!((count(&record, is_gap(Source::Hc)), count(&record, is_gap(Source::Envoy))), (1, 1));
}

/// Exercises losses without end, so that they are a gap now and then.
#[test]
fn lasting_losses() {
    let view = view();
    let mut drains = watched(9, &view);
    drains.pods(&[View { deletion: Some((9 * SECOND, 30)), ..view }], now(9));
    for step in 0..1_000_u32 {
        let at = Moment { utc_us: 10 * SECOND + i64::from(step) * 10_000, ..now(10) };
        drains.lost(Source::Kernel, "the ring was full", at);
    }
    let record = drains.pods(&[], now(21)).pop().unwrap();
    assert_eq!(count(&record, |fact| matches!(fact, Fact::Gap { source: Source::Kernel, .. })), 10);
}
