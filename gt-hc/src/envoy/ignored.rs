//! Whose requests are not the gateway's work: Envoy's own, and the mesh agent's.

/// Prefixes of `http.<prefix>.`: the admin server, which counts the very query that reads it, and the
/// listeners of Istio's bootstrap for health (15021) and metrics (15090).
const SCOPES: [&str; 3] = ["admin", "agent", "stats"];

/// Clusters of Istio's bootstrap and Envoy's sinks. Some carry a stream that never ends: with `xds-grpc`,
/// through which Envoy gets its configuration, the count would never be zero.
const CLUSTERS: [&str; 7] = [
    "agent",
    "envoy_accesslog_service",
    "envoy_metrics_service",
    "prometheus_stats",
    "sds-grpc",
    "xds-grpc",
    "zipkin",
];

/// What is left out of the count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// Further clusters; a `*` at the end stands for any end.
    clusters: Vec<String>,
}

impl Ignored {
    /// The fixed lists, and the clusters of a comma-separated list.
    #[must_use]
    pub fn with(clusters: &str) -> Self {
        let clusters =
            clusters.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Self { clusters }
    }

    /// Whether `http.<prefix>.` is no scope of a listener that clients use.
    pub(super) fn scope(&self, prefix: &str) -> bool {
        SCOPES.contains(&stem(prefix)) || is_worker(prefix)
    }

    /// Whether `cluster.<name>.` is left out.
    pub(super) fn cluster(&self, name: &str) -> bool {
        CLUSTERS.contains(&stem(name))
            || is_worker(name)
            || self.clusters.iter().any(|listed| match listed.strip_suffix('*') {
                Some(begin) => name.starts_with(begin),
                None => listed == name || listed == stem(name),
            })
    }
}

/// Istio ends its own prefixes with a `;`, to tell name and stat apart where names have dots.
fn stem(prefix: &str) -> &str {
    prefix.strip_suffix(';').unwrap_or(prefix)
}

/// A row of one worker repeats what the row of all has.
fn is_worker(prefix: &str) -> bool {
    prefix
        .rsplit('.')
        .next()
        .and_then(|last| last.strip_prefix("worker_"))
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises names of real gateways so that only what clients wait for counts.
    #[test]
    fn scopes_and_clusters() {
        let ignored = Ignored::with("outbound|4317||otel.obs.svc.cluster.local, tracing*");
        for scope in ["admin", "agent", "stats", "admin;", "agent;", "outbound_0.0.0.0_8080.worker_0"] {
            assert!(ignored.scope(scope), "{scope}");
        }
        for scope in
            ["outbound_0.0.0.0_8080", "outbound_0.0.0.0_8443;", "ingress", "administration", "worker_"]
        {
            assert!(!ignored.scope(scope), "{scope}");
        }
        for cluster in [
            "xds-grpc",
            "xds-grpc;",
            "agent",
            "outbound|4317||otel.obs.svc.cluster.local",
            "outbound|4317||otel.obs.svc.cluster.local;",
            "tracing-collector",
        ] {
            assert!(ignored.cluster(cluster), "{cluster}");
        }
        for cluster in ["outbound|80||app.ns.svc.cluster.local;", "app", "xds-grpc-like"] {
            assert!(!ignored.cluster(cluster), "{cluster}");
        }
    }
}
