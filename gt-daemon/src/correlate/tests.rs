//! Events, names and counts of several pods together.

use gt_common::{
    connection::Phase,
    counters::{RstReceived, RstSent},
};

use super::{proxy::tests::torn, *};

const MS: u64 = 1_000_000;

fn name(pod: &str, container: &str) -> Name {
    Name { namespace: "ns".to_owned(), pod: pod.to_owned(), container: container.to_owned() }
}

fn joined(uid: &str, pod: &str, slot: Slot) -> Joined {
    Joined {
        uid: uid.into(),
        slots: vec![(slot, name(pod, "")), (slot + 1, name(pod, "app"))],
        pod_slot: slot,
        has_hc: false,
        has_envoy: false,
        ends: false,
    }
}

fn at(ms: u64) -> Moment {
    Moment { monotonic_ns: ms * MS, utc_us: 0 }
}

/// The teardown of a request that waited, at the 1000th millisecond, for a slot.
fn cut(slot: Slot, socket: u64) -> Observed {
    Observed { slot, ..torn(socket, 1000, How::FinReceived, Phase::Awaiting, Evidence::Socket).event }
}

fn reset(cut: Observed, what: What) -> Observed {
    let connection = cut.connection.map(|mut known| {
        known.rst_counted = true;
        known
    });
    Observed { what, first: false, connection, ..cut }
}

fn key(slot: Slot, how: How, rst: u8) -> CutKey {
    CutKey { slot, how: how as u8, rst, evidence: Evidence::Socket as u8, hc: HcState::Unknown as u8 }
}

fn counts(joins: &Joins, name: &Name) -> (u64, u64) {
    joins
        .counted()
        .names()
        .get(name)
        .map_or((0, 0), |counts| (counts.cuts.values().sum(), counts.resets.values().sum()))
}

/// Exercises events of two pods and a container, so that each is counted for its owner, and an RST once.
#[test]
fn owners_and_resets() {
    let mut joins = Joins::new(250);
    joins.pods(&[joined("u1", "a", 1), joined("u2", "b", 3)]);
    assert_eq!(joins.event(&cut(2, 7)), None);
    joins.event(&cut(3, 8));
    joins.event(&cut(9, 9));
    let received = What::RstReceived(RstReceived::Reset);
    joins.event(&reset(cut(2, 7), received));
    assert_eq!(joins.tick(at(1001)).len(), 2);
    assert_eq!(joins.late_resets(), [], "the judgement bears it");
    joins.event(&reset(cut(3, 8), received));
    joins.event(&reset(cut(3, 8), What::RstSent(RstSent::Reply)));
    let late = joins.late_resets();
    assert_eq!(late.len(), 1);
    assert_eq!((&*late[0].uid, late[0].in_flight, late[0].direction), ("u2", true, Direction::Received));
    assert_eq!(joins.late_resets(), []);
    assert_eq!(counts(&joins, &name("a", "app")), (1, 1));
    assert_eq!(counts(&joins, &name("a", "")), (0, 0));
    assert_eq!(counts(&joins, &name("b", "")), (1, 1));
}

/// Exercises the kernel's counts against the events, so that what was lost is counted by them and nothing twice.
#[test]
fn lost_events() {
    let mut joins = Joins::new(250);
    joins.pods(&[joined("u1", "a", 1)]);
    joins.event(&cut(1, 7));
    joins.event(&reset(cut(1, 7), What::RstReceived(RstReceived::Reset)));
    joins.tick(at(1001));
    let kernel =
        [(key(1, How::FinReceived, 0), 3), (key(1, How::None, 2), 2), (key(5, How::FinReceived, 0), 9)];
    assert_eq!(joins.kernel_cuts(&[], at(1500)), []);
    assert_eq!(joins.kernel_cuts(&kernel, at(2000)), []);
    assert_eq!(counts(&joins, &name("a", "")), (1, 1));
    let found = joins.kernel_cuts(&kernel, at(2500));
    let found: Vec<_> =
        found.iter().map(|cut| (&*cut.uid, cut.at_ns, cut.count, cut.ending, cut.sure)).collect();
    assert_eq!(found, [("u1", 1500 * MS, 2, Ending::FinReceived, true)]);
    assert_eq!(joins.kernel_cuts(&kernel, at(3000)), []);
    assert_eq!(counts(&joins, &name("a", "")), (3, 2));
}

/// Exercises an abort, which the kernel counts when it knows what it was, so that it is not taken for lost.
#[test]
fn aborts_are_accounted() {
    let mut joins = Joins::new(250);
    joins.pods(&[joined("u1", "a", 1)]);
    let pending = |socket| torn(socket, 1000, How::Pending, Phase::Awaiting, Evidence::Socket).event;
    joins.event(&pending(7));
    joins.event(&pending(8));
    let mut sent = reset(pending(7), What::RstSent(RstSent::Active));
    if let Some(known) = &mut sent.connection {
        known.how = How::RstSent;
    }
    joins.event(&sent);
    assert_eq!(joins.tick(at(2000)).len(), 2);
    let kernel = [(key(1, How::RstSent, 0), 1), (key(1, How::None, 1), 1), (key(1, How::Timeout, 0), 1)];
    for _ in 0..3 {
        joins.kernel_cuts(&kernel, at(2000));
    }
    assert_eq!(counts(&joins, &name("a", "")), (2, 1));
}

/// Exercises a pod that follows another of its name, and one that takes a slot over, so that counts stay with the name and
/// lost events with the slot's owner.
#[test]
fn pods_that_follow_each_other() {
    let mut joins = Joins::new(250);
    joins.pods(&[joined("u1", "a", 1)]);
    joins.event(&cut(1, 7));
    joins.tick(at(1001));
    joins.pods(&[joined("u1", "a", 1), joined("u2", "a", 3)]);
    joins.event(&cut(3, 8));
    joins.tick(at(1002));
    assert_eq!(counts(&joins, &name("a", "")), (2, 0));
    joins.pods(&[joined("u2", "a", 3), joined("u3", "c", 1)]);
    assert_eq!((counts(&joins, &name("a", "")), counts(&joins, &name("c", ""))), ((2, 0), (0, 0)));
    for _ in 0..2 {
        joins.kernel_cuts(&[(key(1, How::FinReceived, 0), 1)], at(2000));
    }
    assert_eq!(counts(&joins, &name("c", "")), (1, 0));
    joins.pods(&[joined("u3", "c", 1)]);
    assert_eq!(counts(&joins, &name("a", "")), (0, 0));
}
