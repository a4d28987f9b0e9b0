use proptest::prelude::*;

use super::*;

fn sum(body: &str) -> Result<Active, CountError> {
    count(body.as_bytes(), &Ignored::default())
}

/// An idle gateway as Istio lays it out: two listeners, two services, and what is not the clients'.
const ISTIO: &str = "\
cluster.agent.upstream_rq_active: 1
cluster.outbound|80||app.ns.svc.cluster.local;.upstream_rq_active: 2
cluster.outbound|9000||api.ns.svc.cluster.local;.upstream_rq_active: 0
cluster.xds-grpc.upstream_rq_active: 1
cluster.app.upstream_rq_active_overflow: 7
http.admin.downstream_rq_active: 1
http.agent.downstream_rq_active: 1
http.outbound_0.0.0.0_8080;.downstream_rq_active: 3
http.outbound_0.0.0.0_8443;.downstream_rq_active: 1
http.outbound_0.0.0.0_8443;.worker_0.downstream_rq_active: 1
http.stats.downstream_rq_active: 1
listener.0.0.0.0_8080.worker_0.downstream_cx_active: 5
";

/// Exercises an Istio gateway so that the agent's, Envoy's own and the workers' rows are left out.
#[test]
fn an_istio_gateway() {
    assert_eq!(sum(ISTIO), Ok(Active { downstream: 4, upstream: 2 }));
}

/// Exercises prefixes without `;`, as a plain Envoy has them.
#[test]
fn a_plain_envoy() {
    let body = "cluster.app.upstream_rq_active: 0\nhttp.admin.downstream_rq_active: 1\nhttp.ingress.downstream_rq_active: 0\n";
    assert_eq!(sum(body).map(Active::total), Ok(0));
}

/// Exercises each stat that is missing so that it is never taken for a zero.
#[test]
fn a_missing_stat_is_unknown() {
    assert_eq!(sum(""), Err(CountError::NoDownstream));
    assert_eq!(sum("http.admin.downstream_rq_active: 1\n"), Err(CountError::NoDownstream));
    assert_eq!(sum("cluster.app.upstream_rq_active: 0\n"), Err(CountError::NoDownstream));
    assert_eq!(sum("http.in.downstream_rq_active: 0\n"), Err(CountError::NoUpstream));
    assert_eq!(
        sum("http.in.downstream_rq_active: 0\ncluster.xds-grpc.upstream_rq_active: 1\n"),
        Err(CountError::NoUpstream)
    );
}

/// Exercises stats that Envoy makes late: no request so far is a zero, a stat kept out is none.
#[test]
fn stats_made_with_the_first_request() {
    let idle = "http.in;.downstream_rq_active: 0\ncluster.a;.ClusterTrafficStats.initialized: 0\n";
    assert_eq!(sum(idle), Ok(Active { downstream: 0, upstream: 0 }));
    let used = format!("{idle}cluster.b;.ClusterTrafficStats.initialized: 1\n");
    assert_eq!(sum(&used), Err(CountError::KeptOut("b;".to_owned())));
    let told = format!("{used}cluster.b;.upstream_rq_active: 4\n");
    assert_eq!(sum(&told), Ok(Active { downstream: 0, upstream: 4 }));
}

/// Exercises the errors' words so that whoever reads one knows what to set.
#[test]
fn errors_name_the_remedy() {
    for error in [CountError::NoDownstream, CountError::NoUpstream, CountError::KeptOut("b".to_owned())] {
        assert!(error.to_string().contains("proxyStatsMatcher"), "{error}");
    }
}

proptest! {
    /// Exercises any counts so that the sum is zero only when Envoy told a zero for both.
    #[test]
    fn zero_only_of_zeros(downs in prop::collection::vec(0..3_u64, 0..4), ups in prop::collection::vec(0..3_u64, 0..4)) {
        let mut body = String::from("http.admin.downstream_rq_active: 1\n");
        for (index, value) in downs.iter().enumerate() {
            body.push_str(&format!("http.outbound_{index};.downstream_rq_active: {value}\n"));
        }
        for (index, value) in ups.iter().enumerate() {
            body.push_str(&format!("cluster.outbound|{index};.upstream_rq_active: {value}\n"));
        }
        let all_zero = !downs.is_empty() && !ups.is_empty() && downs.iter().chain(&ups).all(|value| *value == 0);
        prop_assert_eq!(matches!(sum(&body), Ok(active) if active.total() == 0), all_zero);
    }
}
