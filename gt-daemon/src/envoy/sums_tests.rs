use proptest::prelude::*;

use super::*;

fn text(body: &str) -> Sums {
    Sums::read(Form::Text, body.as_bytes(), &Ignored::default()).unwrap()
}

/// A gateway as Istio lays it out: two listeners, two services, and what is not the clients'.
const ISTIO: &str = "\
cluster.agent.upstream_rq_active: 1
cluster.outbound|80||app.ns.svc.cluster.local;.upstream_rq_active: 2
cluster.outbound|9000||api.ns.svc.cluster.local;.upstream_rq_active: 0
cluster.xds-grpc.upstream_rq_active: 1
http.admin.downstream_rq_active: 1
http.agent.downstream_rq_active: 1
http.outbound_0.0.0.0_8080;.downstream_rq_active: 3
http.outbound_0.0.0.0_8443;.downstream_rq_active: 1
http.outbound_0.0.0.0_8443;.worker_0.downstream_rq_active: 1
http.outbound_0.0.0.0_8443;.user_agent.ios.downstream_cx_total: 5
http.stats.downstream_rq_active: 1
listener.0.0.0.0_8080.worker_0.downstream_cx_active: 5
";

/// Exercises an Istio gateway, so that the agent's, Envoy's own, the workers' and the kinds' rows are left out.
#[test]
fn an_istio_gateway() {
    let sums = text(ISTIO);
    assert_eq!(sums.get(Stat::DownstreamRqActive), Some(4));
    assert_eq!(sums.get(Stat::UpstreamRqActive), Some(2));
    assert_eq!(sums.get(Stat::DownstreamCxTotal), None);
    assert_eq!(sums.get(Stat::DownstreamRqRxReset), None);
}

/// Exercises the same gateway in Istio's Prometheus form, whose names hold the listener's address.
#[test]
fn an_istio_gateway_by_prometheus() {
    let body = "\
envoy_cluster_upstream_rq_active{cluster_name=\"xds-grpc\"} 1
envoy_cluster_upstream_rq_active{cluster_name=\"outbound|80||app.ns.svc.cluster.local\"} 2
envoy_http_admin_downstream_rq_active{} 1
envoy_http_agent_downstream_rq_active{} 1
envoy_http_outbound_0_0_0_0_8080__downstream_rq_active{} 3
envoy_http_outbound_0_0_0_0_8443__downstream_rq_active{} 1
envoy_http_stats_downstream_rq_active{} 1
envoy_http_user_agent_downstream_cx_total{envoy_http_conn_manager_prefix=\"in\",envoy_user_agent=\"ios\"} 5
istio_requests_total{reporter=\"source\"} 12
";
    let sums = Sums::read(Form::Prometheus, body.as_bytes(), &Ignored::default()).unwrap();
    assert_eq!(sums.get(Stat::DownstreamRqActive), Some(4));
    assert_eq!(sums.get(Stat::UpstreamRqActive), Some(2));
    assert_eq!(sums.get(Stat::DownstreamCxTotal), None);
}

proptest! {
    /// Exercises any rows, so that a sum is that of its rows and is absent exactly when there are none.
    #[test]
    fn sums_are_of_rows(downs in prop::collection::vec(0..5_u64, 0..4), ups in prop::collection::vec(0..5_u64, 0..4)) {
        let mut body = String::from("http.admin.downstream_rq_active: 1\n");
        for (index, value) in downs.iter().enumerate() {
            body.push_str(&format!("http.outbound_{index};.downstream_rq_active: {value}\n"));
        }
        for (index, value) in ups.iter().enumerate() {
            body.push_str(&format!("cluster.outbound|{index};.upstream_rq_rx_reset: {value}\n"));
        }
        let sums = text(&body);
        let expected = |values: &[u64]| (!values.is_empty()).then(|| values.iter().sum());
        prop_assert_eq!(sums.get(Stat::DownstreamRqActive), expected(&downs));
        prop_assert_eq!(sums.get(Stat::UpstreamRqRxReset), expected(&ups));
        prop_assert_eq!(sums.counters.values().sum::<u64>(), ups.iter().sum::<u64>());
    }
}
