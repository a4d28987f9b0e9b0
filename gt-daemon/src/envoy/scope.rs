//! Whose requests are a client's: listeners that clients use, and clusters that serve them.

/// Prefixes of `http.<prefix>.` that are no client's: the admin server, which counts the very question, and Istio's
/// listeners for health (15021) and metrics (15090).
const LISTENERS: [&str; 3] = ["admin", "agent", "stats"];

/// Clusters of Envoy's and Istio's own work. Some carry a stream that never ends: with `xds-grpc`, through which
/// Envoy gets its configuration, nothing would ever be at rest.
const CLUSTERS: [&str; 7] = [
    "agent",
    "envoy_accesslog_service",
    "envoy_metrics_service",
    "prometheus_stats",
    "sds-grpc",
    "xds-grpc",
    "zipkin",
];

/// What is left out beyond the fixed lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// Names of clusters; a `*` at the end stands for any end.
    pub clusters: Vec<String>,
}

impl Ignored {
    /// Whether rows of `http.<scope>.` are left out.
    #[must_use]
    pub fn listener(&self, scope: &str) -> bool {
        LISTENERS.iter().any(|name| same(name, scope)) || is_part(scope)
    }

    /// Whether rows of `cluster.<scope>.` are left out.
    #[must_use]
    pub fn cluster(&self, scope: &str) -> bool {
        CLUSTERS.iter().any(|name| same(name, scope))
            || is_part(scope)
            || self.clusters.iter().any(|listed| match listed.strip_suffix('*') {
                Some(begin) => scope.starts_with(begin),
                None => same(listed, scope),
            })
    }
}

/// Istio ends its own prefixes with `;`, to tell scope and stat apart where names have dots; Prometheus' form
/// may have `_` for everything but letters and digits.
fn same(listed: &str, scope: &str) -> bool {
    let plain = |byte: u8| if byte.is_ascii_alphanumeric() { byte } else { b'_' };
    let scope = scope.strip_suffix(';').unwrap_or(scope);
    listed.len() == scope.len()
        && (listed == scope
            || listed.bytes().map(plain).eq(scope.bytes())
                && scope.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()))
}

/// Rows of one worker or one kind of client repeat what the row of all has.
fn is_part(scope: &str) -> bool {
    let is_worker = scope
        .rsplit(['.', '_'])
        .next()
        .filter(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|number| scope.strip_suffix(number))
        .is_some_and(|begin| begin == "worker_" || begin.ends_with(".worker_"));
    is_worker
        || scope.contains(".user_agent.")
        || scope.split('_').collect::<Vec<_>>().windows(2).any(|w| w == ["user", "agent"])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises names of real gateways, so that only what clients wait for counts.
    #[test]
    fn listeners() {
        let ignored = Ignored::default();
        for scope in [
            "admin",
            "admin;",
            "agent",
            "stats",
            "outbound_0.0.0.0_8080;.worker_0",
            "worker_12",
            "ingress.user_agent.ios",
            "user_agent",
        ] {
            assert!(ignored.listener(scope), "{scope}");
        }
        for scope in [
            "outbound_0.0.0.0_8080;",
            "outbound_0_0_0_0_8080",
            "ingress",
            "administration",
            "worker_",
            "statsd",
        ] {
            assert!(!ignored.listener(scope), "{scope}");
        }
    }

    /// Exercises clusters by their names in all forms, and those a user lists.
    #[test]
    fn clusters() {
        let ignored = Ignored { clusters: vec!["outbound|4317||otel.obs".into(), "tracing*".into()] };
        for scope in ["xds-grpc", "xds-grpc;", "xds_grpc", "outbound|4317||otel.obs;", "tracing-collector"] {
            assert!(ignored.cluster(scope), "{scope}");
        }
        for scope in
            ["outbound|80||app.ns.svc.cluster.local;", "app", "xds-grpc-like", "xds.grpc", "outbound"]
        {
            assert!(!ignored.cluster(scope), "{scope}");
        }
    }
}
