//! Looks one after the other.

use super::*;
use crate::{
    clock::Moment,
    lb::history::{Held, History},
};

const SECOND: i64 = 1_000_000;

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
    // From its last answer on nobody knows.
    let unknown = (SECOND + 100_001, What::Status { status: None, serving: None });
    assert_eq!(take(&mut words, 2, zero(3.0)), [unknown, status(2, "0", None)]);
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
    assert_eq!(gone[0].ts, SECOND + 100_001, "not known since it served, not since that was seen");
    assert_eq!((words.look(&lb, "", &[], &look(3, vec![])), words.serving()), (vec![], None));
}

/// Exercises a word that was brought, so that its instant is the LB's.
#[test]
fn brought() {
    let said = Words::default().note("igw/node-1", "DOWN", 7);
    assert_eq!(said[1], Said { ts: 7, server: "igw/node-1".to_owned(), what: What::Down { last_up: None } });
    assert_eq!(Words::default().note("igw/node-1", "DRAIN", 7).len(), 1);
}

/// What the LB did at tenths of a second, by these words.
fn held(said: &[(i64, What)], tenths: &[i64]) -> Vec<Held> {
    let mut history = History::default();
    for (ts, what) in said {
        history.said(&Said { ts: *ts, server: "s".to_owned(), what: what.clone() });
    }
    tenths.iter().map(|tenth| history.at(tenth * SECOND / 10)).collect()
}

/// Exercises an LB that went down and came back between two looks at which it served, so that its counts tell of it; with
/// counts that began anew, as after a reload, that are two LBs' in turn, or that do not fit, nobody knows.
#[test]
fn down_between_two_looks() {
    let up = |downs: u8, since, downtime| Row {
        downs: Some(f64::from(downs)),
        since_s: Some(since),
        downtime_s: Some(downtime),
        ..row("UP")
    };
    let seen = |before: Row, after: Row| {
        let mut words = Words::default();
        let mut said = take(&mut words, 1, before);
        said.extend(take(&mut words, 3, after));
        assert_eq!(words.serving(), Some(Serving::Up));
        said
    };
    let at = [5, 20, 32];
    let table = [
        (up(1, 90, 5.0), up(1, 92, 5.0), [Held::Served, Held::Served, Held::Served]),
        (up(1, 90, 5.0), up(2, 0, 5.0), [Held::Served, Held::Down, Held::Served]),
        (up(1, 90, 5.0), up(1, 0, 6.0), [Held::Served, Held::Down, Held::Served]),
        (up(4, 90, 5.0), up(0, 1, 0.0), [Held::Served, Held::Unclear, Held::Served]),
        (up(1, 90, 5.0), up(4, 800, 5.0), [Held::Served, Held::Unclear, Held::Served]),
        (
            Row { downs: Some(1.0), ..row("UP") },
            Row { downs: Some(2.0), ..row("UP") },
            [Held::Served, Held::Unclear, Held::Served],
        ),
    ];
    for (before, after, expected) in table {
        let said = seen(before.clone(), after.clone());
        assert_eq!(held(&said, &at), expected, "{before:?} {after:?}");
    }
    let mut words = Words::default();
    take(&mut words, 1, up(1, 90, 5.0));
    let said = take(&mut words, 61, up(1, 20, 5.0));
    assert_eq!(said.len(), 2, "changed by its own word, and no count says how: {said:?}");
}

/// Exercises an LB that is not heard any more, so that what ends after its last word is nobody's, until it is heard again.
#[test]
fn not_heard() {
    let mut words = Words::default();
    let mut said = take(&mut words, 1, row("UP"));
    said.extend(take(&mut words, 2, row("UP")));
    assert_eq!(words.unheard(2 * SECOND + UNHEARD), []);
    let unheard = words.unheard(2 * SECOND + UNHEARD + 1);
    assert_eq!(words.unheard(60 * SECOND), [], "told once");
    assert_eq!((unheard.len(), words.serving()), (1, None));
    said.extend(unheard.into_iter().map(|said| (said.ts, said.what)));
    assert_eq!(held(&said, &[15, 21, 90]), [Held::Served, Held::Unclear, Held::Unclear]);
    said.extend(take(&mut words, 60, row("UP")));
    assert_eq!(held(&said, &[15, 21, 602]), [Held::Served, Held::Unclear, Held::Served]);
    let mut down = Words::default();
    take(&mut down, 1, row("DOWN"));
    assert_eq!(down.unheard(60 * SECOND), [], "it stays DOWN until it says another word");
}

/// Exercises more servers than are told apart, and two of one name, so that a DOWN that is not seen leaves nobody sure.
#[test]
fn many_and_alike() {
    let rows: Vec<_> = (0..=MOST).map(|number| Row::new("igw", &format!("s{number:03}"), "UP")).collect();
    let look = look(1, rows);
    let mut words = Words::default();
    let told = words.look(&"lb".into(), "", &look.rows.iter().collect::<Vec<_>>(), &look);
    let rest: Vec<_> = told.iter().filter(|said| said.server == REST).collect();
    assert!(matches!(rest[..], [Said { what: What::Status { serving: None, .. }, .. }]), "{rest:?}");
    assert_eq!(told.len(), MOST + 1);

    let mut words = Words::default();
    for second in 1..4 {
        let look = self::look(second, vec![row("UP"), row("DOWN")]);
        let told = words.look(&"lb".into(), "", &look.rows.iter().collect::<Vec<_>>(), &look);
        assert_eq!((told.len(), words.serving()), (usize::from(second == 1), None), "{told:?}");
    }
}
