//! Looks one after the other.

use super::*;
use crate::clock::Moment;

/// A look that was asked at `at` seconds and answered 0.1 s later.
fn look(at: i64, rows: Vec<Row>) -> Look {
    let moment = |utc_us| Moment { utc_us, monotonic_ns: 0 };
    Look { rows, asked: moment(at * SECOND), answered: moment(at * SECOND + 100_000) }
}

fn take(words: &mut Words, at: i64, row: Row) -> Vec<(i64, What)> {
    let look = look(at, vec![row]);
    let rows: Vec<_> = look.rows.iter().collect();
    words.look(&"lb".into(), "", &rows, &look).into_iter().map(|said| (said.ts, said.what)).collect()
}

fn status(at: i64, status: &str, serving: Option<Serving>) -> (i64, What) {
    (at * SECOND + 100_000, What::Status { status: Some(status.to_owned()), serving })
}

fn down(at: i64, last_up: i64) -> (i64, What) {
    (at * SECOND + 100_000, What::Down { last_up: Some(last_up * SECOND) })
}

fn row(status: &str) -> Row {
    Row::new("igw", "node-1", status)
}

/// Exercises a server on its way down and up again, so that each change is told once, and DOWN lies between two looks.
#[test]
fn down_and_up() {
    let mut words = Words::default();
    assert_eq!(take(&mut words, 1, row("UP")), [status(1, "UP", Some(Serving::Up))]);
    assert_eq!(take(&mut words, 2, row("UP")), []);
    assert_eq!(take(&mut words, 3, row("UP 1/2")), [status(3, "UP 1/2", Some(Serving::Up))]);
    assert_eq!(take(&mut words, 4, row("DOWN")), [status(4, "DOWN", Some(Serving::Down)), down(4, 3)]);
    assert_eq!(take(&mut words, 5, row("DOWN 1/2")), [status(5, "DOWN 1/2", Some(Serving::Down))]);
    assert_eq!(words.serving(), Some(Serving::Down));
    assert_eq!(take(&mut words, 6, row("UP")), [status(6, "UP", Some(Serving::Up))]);
    assert_eq!(take(&mut words, 7, row("NOLB")), [status(7, "NOLB", Some(Serving::NoNew))]);
    assert_eq!(take(&mut words, 9, row("MAINT")), [status(9, "MAINT", Some(Serving::Down)), down(9, 7)]);
}

/// Exercises a server that is down when it is first asked, so that the time that it tells itself is a bracket of two seconds,
/// and without one nothing is made up.
#[test]
fn down_at_first() {
    let told = take(&mut Words::default(), 100, Row { since_s: Some(7), ..row("DOWN") });
    assert_eq!(told[1], (94 * SECOND + 100_000, What::Down { last_up: Some(92 * SECOND) }));
    let told = take(&mut Words::default(), 100, Row { since_s: Some(0), ..row("DOWN") });
    assert_eq!(told[1], (100 * SECOND + 100_000, What::Down { last_up: Some(99 * SECOND) }));
    assert_eq!(take(&mut Words::default(), 100, row("DOWN")), [status(100, "DOWN", Some(Serving::Down))]);
}

/// Exercises the old exporter's 0, so that it is DOWN only when the time in DOWN grows, and stays so.
#[test]
fn the_old_exporter() {
    let mut words = Words::default();
    let zero = |downtime| Row { downtime_s: Some(downtime), ..row("0") };
    let one = Row { serving: Some(Serving::Up), downtime_s: Some(3.0), ..row("1") };
    take(&mut words, 1, one);
    assert_eq!(take(&mut words, 2, zero(3.0)), [status(2, "0", None)]);
    assert_eq!(take(&mut words, 3, zero(3.0)), []);
    assert_eq!(take(&mut words, 4, zero(4.0)), [status(4, "0", Some(Serving::Down)), down(4, 1)]);
    assert_eq!(take(&mut words, 5, zero(4.0)), []);
}

/// Exercises a server that is not listed any more, so that what it does is not known from then on.
#[test]
fn not_listed() {
    let mut words = Words::default();
    take(&mut words, 1, row("UP"));
    let (other, lb): (Arc<str>, Arc<str>) = ("other".into(), "lb".into());
    assert_eq!(words.look(&other, "", &[], &look(2, vec![])), []);
    let gone = words.look(&lb, "", &[], &look(2, vec![]));
    assert_eq!(gone[0].what, What::Status { status: None, serving: None });
    assert_eq!((words.look(&lb, "", &[], &look(3, vec![])), words.serving()), (vec![], None));
}

/// Exercises a word that was brought, so that its instant is the LB's.
#[test]
fn brought() {
    let said = Words::default().note("igw/node-1", "DOWN", 7);
    assert_eq!(said[1], Said { ts: 7, server: "igw/node-1".to_owned(), what: What::Down { last_up: None } });
    assert_eq!(Words::default().note("igw/node-1", "DRAIN", 7).len(), 1);
}
