use super::*;
use crate::{
    clock::Moment,
    envoy::{
        form::Form,
        query::{Kinds, questions},
        sample::{Counters, Gauges, Read},
    },
};

const SECOND: u64 = 1_000_000_000;

/// Plays one look at an Envoy that answers `gauges` and `counters`.
fn look(
    session: &mut Session,
    now: Instant,
    at: u64,
    connection: u64,
    gauges: &str,
    counters: &str,
) -> (Sample, bool) {
    let full = session.must_learn(now);
    let moment = Moment { monotonic_ns: at * SECOND, utc_us: 0 };
    let mut sample = Sample {
        epoch: 0,
        gauges: Read { begun: moment, ended: moment, values: Gauges::default() },
        counters: None,
    };
    for question in questions(Form::Text, true, !full) {
        let body = if question.kinds == Kinds::Gauges { gauges } else { counters };
        let told = Told { body: body.as_bytes(), at_ns: at * SECOND, connection };
        let sums = session.take(&question, told).unwrap();
        if question.kinds == Kinds::Gauges {
            sample.gauges.values = Gauges::from(&sums);
        } else {
            sample.counters = Some(Read { begun: moment, ended: moment, values: Counters::from(&sums) });
        }
    }
    sample.epoch = session.epoch();
    session.finish(now, full, &sample);
    (sample, full)
}

const GAUGES: &str = "http.in.downstream_rq_active: 0\ncluster.a.upstream_rq_active: 0\nserver.uptime: 100\n";
const COUNTERS: &str =
    "http.in.downstream_cx_destroy_remote_active_rq: 0\nhttp.in.downstream_rq_rx_reset: 0\n";

/// Exercises an ordinary life, so that names are learned once and zeros need no rows after that.
#[test]
fn learned_once() {
    let (mut session, now) = (Session::new(Ignored::default()), Instant::now());
    let (first, full) = look(&mut session, now, 0, 1, GAUGES, COUNTERS);
    assert!(full && first.gauges.values.active() == Some(0));
    let (second, full) =
        look(&mut session, now, 5, 1, "server.uptime: 105\n", "http.in.downstream_rq_rx_reset: 2\n");
    assert!(!full);
    assert_eq!((second.epoch, second.gauges.values.active()), (0, Some(0)));
    let since = second.counters.unwrap().values.since(&first.counters.unwrap().values);
    assert_eq!(since.downstream_rq_rx_reset, Some(2));
    assert_eq!(since.downstream_cx_destroy_remote_active_rq, Some(0));
    assert_eq!(since.downstream_rq_tx_reset, None);
}

/// Exercises a restart, so that no zero is taken over from the process before and names are learned again.
#[test]
fn a_restart_is_learned_anew() {
    let (mut session, now) = (Session::new(Ignored::default()), Instant::now());
    look(&mut session, now, 0, 1, GAUGES, COUNTERS);
    let (after, full) = look(&mut session, now, 9, 2, "server.uptime: 0\n", "");
    assert!(!full);
    assert_eq!((after.epoch, after.gauges.values.active()), (1, None));
    let (learned, full) = look(&mut session, now, 10, 2, GAUGES, COUNTERS);
    assert!(full);
    assert_eq!((learned.epoch, learned.gauges.values.active()), (1, Some(0)));
    assert!(!session.must_learn(now + LONGEST_PAUSE));
}

/// Exercises an Envoy that keeps none of the stats, so that it is asked for everything more and more seldom.
#[test]
fn missing_stats_are_looked_for_seldom() {
    let (mut session, start) = (Session::new(Ignored::default()), Instant::now());
    let mut full_looks = Vec::new();
    for second in 0..300 {
        let now = start + Duration::from_secs(second);
        let (sample, full) = look(&mut session, now, second, 1, "server.uptime: 1\n", "");
        assert_eq!(sample.gauges.values.downstream_rq_active, None);
        if full {
            full_looks.push(second);
        }
    }
    assert_eq!(full_looks, [0, 5, 15, 35, 75, 135, 195, 255]);
}

/// Exercises a listener that comes later, so that its stats are found and learning ends.
#[test]
fn a_late_listener_is_found() {
    let (mut session, now) = (Session::new(Ignored::default()), Instant::now());
    look(&mut session, now, 0, 1, "server.uptime: 1\n", "");
    let later = now + FIRST_PAUSE;
    let (sample, full) = look(&mut session, later, 5, 1, GAUGES, COUNTERS);
    assert!(full && sample.gauges.values.active() == Some(0));
    assert!(!session.must_learn(later + LONGEST_PAUSE));
}

/// Exercises a malformed answer, so that nothing is learned from it.
#[test]
fn malformed_answers_change_nothing() {
    let mut session = Session::new(Ignored::default());
    let question = &questions(Form::Text, false, false)[0];
    assert!(session.take(question, Told { body: b"<html>\n", at_ns: 0, connection: 1 }).is_err());
    assert!(session.must_learn(Instant::now()));
    assert_eq!(session.epoch(), 0);
}
