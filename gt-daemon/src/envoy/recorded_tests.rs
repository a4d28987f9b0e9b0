//! Recorded answers of a real Envoy (testdata/envoy).

use super::{
    catalogue::Catalogue,
    form::Form,
    query::Kinds,
    sample::{Counters, Gauges},
    scope::Ignored,
    stat::Stat,
    sums::Sums,
};

fn read(form: Form, body: &str) -> Sums {
    Sums::read(form, body.as_bytes(), &Ignored::default()).unwrap()
}

/// Exercises the counters after real cuts, so that they say what happened, and only the clients' rows count.
#[test]
fn after_cuts() {
    let after = |body| Counters::from(&read(Form::Text, body));
    let six = after(include_str!("../../testdata/envoy/cut_six_h1.txt"));
    assert_eq!(six.downstream_cx_destroy_remote_active_rq, Some(6));
    assert_eq!(six.downstream_cx_destroy_active_rq, Some(6));
    assert_eq!(six.downstream_cx_destroy_local_active_rq, Some(0));
    assert_eq!(six.downstream_rq_rx_reset, Some(6));
    assert_eq!(six.upstream_cx_destroy_local_with_active_rq, Some(6));
    assert_eq!((six.downstream_rq_total, six.downstream_cx_total), (Some(6), Some(6)));
    let h2 = after(include_str!("../../testdata/envoy/cut_two_h2.txt"));
    assert_eq!(h2.downstream_cx_destroy_remote_active_rq, Some(0));
    assert_eq!((h2.downstream_rq_rx_reset, h2.downstream_rq_tx_reset), (Some(2), Some(0)));
    let abort = after(include_str!("../../testdata/envoy/client_abort.txt"));
    assert_eq!((abort.downstream_rq_rx_reset, abort.downstream_rq_total), (Some(1), Some(2)));
    assert_eq!(abort.listener_stopped, Some(0));
}

/// Exercises one look in all forms, so that they tell the same.
#[test]
fn in_flight() {
    // In the last, another run, the client went away before the service did.
    let looks = [
        (Form::Text, include_str!("../../testdata/envoy/in_flight.txt"), [0, 0, 1]),
        (Form::Json, include_str!("../../testdata/envoy/in_flight.json"), [0, 0, 1]),
        (Form::Prometheus, include_str!("../../testdata/envoy/in_flight_istio_tags.prom"), [0, 0, 1]),
        (Form::Prometheus, include_str!("../../testdata/envoy/in_flight_default_tags.prom"), [1, 1, 0]),
    ];
    for (form, body, [cut, local, remote]) in looks {
        let sums = read(form, body);
        let gauges = Gauges::from(&sums);
        assert_eq!((gauges.downstream_rq_active, gauges.upstream_rq_active), (Some(1), Some(1)), "{form:?}");
        assert_eq!((gauges.downstream_cx_active, gauges.live), (Some(1), Some(true)), "{form:?}");
        let counters = Counters::from(&sums);
        assert_eq!(
            (counters.downstream_cx_total, counters.downstream_rq_total),
            (Some(3), Some(3)),
            "{form:?}"
        );
        assert_eq!(counters.downstream_rq_rx_reset, Some(cut), "{form:?}");
        assert_eq!(counters.downstream_cx_destroy_remote_active_rq, Some(cut), "{form:?}");
        assert_eq!(counters.upstream_cx_destroy_local_with_active_rq, Some(local), "{form:?}");
        assert_eq!(counters.upstream_cx_destroy_remote_with_active_rq, Some(remote), "{form:?}");
    }
}

/// Exercises the same look with `usedonly`, so that once the names are learned it tells the same.
#[test]
fn used_only_completed_is_the_whole() {
    let mut whole = read(Form::Text, include_str!("../../testdata/envoy/in_flight.txt"));
    let mut used = read(Form::Text, include_str!("../../testdata/envoy/in_flight_used.txt"));
    assert_eq!(used.get(Stat::DownstreamRqRxReset), None);
    let mut catalogue = Catalogue::default();
    catalogue.learn(Kinds::Both, &mut whole);
    assert!(catalogue.complete(Kinds::Both, &mut used));
    assert_eq!(Gauges::from(&used), Gauges::from(&whole));
    assert_eq!(Counters::from(&used), Counters::from(&whole));
}
