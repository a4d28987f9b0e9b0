//! From stats to the two counts: requests of clients, and requests Envoy has sent on.
//!
//! Since 1.24 Istio lets Envoy make a cluster's `upstream_rq_active` with its first request. A hidden gauge,
//! `ClusterTrafficStats.initialized`, tells such a cluster (0: there has been no request) from one whose stat
//! a stats matcher keeps out.

use std::collections::BTreeMap;

use super::{Ignored, stats, stats::Garbage};

const DOWNSTREAM: &str = ".downstream_rq_active";
const UPSTREAM: &str = ".upstream_rq_active";
const INITIALIZED: &str = ".ClusterTrafficStats.initialized";

/// What `/stats` is asked for, URL-encoded: `(downstream_rq_active|upstream_rq_active|ClusterTrafficStats
/// \.initialized)$`, gauges, hidden ones too. Versions of Envoy that do not know a parameter ignore it.
pub(super) const QUERY: &str = "/stats?filter=(downstream_rq_active%7Cupstream_rq_active%7C\
                                ClusterTrafficStats%5C.initialized)%24&type=Gauges&hidden=include&format=json";

/// Requests in flight, as Envoy counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active {
    /// From clients, over all listeners that clients use.
    pub downstream: u64,
    /// To services, over all clusters but the ignored.
    pub upstream: u64,
}

impl Active {
    /// Both together; zero only when both are.
    #[must_use]
    pub fn total(self) -> u64 {
        self.downstream.saturating_add(self.upstream)
    }
}

/// Why an answer holds no count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    #[error(transparent)]
    Garbage(#[from] Garbage),
    #[error("Envoy has no http.<prefix>.downstream_rq_active of a client's listener: {STATS}")]
    NoDownstream,
    #[error("Envoy has no cluster.<name>.upstream_rq_active: {STATS}")]
    NoUpstream,
    #[error("Envoy keeps no upstream_rq_active of cluster {0:?}, which has had requests: {STATS}")]
    KeptOut(String),
}

/// The remedy: by default Istio keeps these stats out.
const STATS: &str = "let it keep them with proxyStatsMatcher inclusionSuffixes [downstream_rq_active, \
                     upstream_rq_active, ClusterTrafficStats.initialized]";

/// What is known about one cluster.
#[derive(Default)]
struct Cluster {
    active: Option<u64>,
    initialized: Option<u64>,
}

/// Sums an answer of `/stats`.
pub(super) fn count(body: &[u8], ignored: &Ignored) -> Result<Active, CountError> {
    let mut downstream: Option<u64> = None;
    let mut clusters: BTreeMap<String, Cluster> = BTreeMap::new();
    let wanted =
        |name: &str| name.ends_with(DOWNSTREAM) || name.ends_with(UPSTREAM) || name.ends_with(INITIALIZED);
    stats::each(body, wanted, |name, value| {
        if let Some(prefix) = between(name, "http.", DOWNSTREAM) {
            if !ignored.scope(prefix) {
                downstream = Some(downstream.unwrap_or(0).saturating_add(value));
            }
        } else if let Some(cluster) = between(name, "cluster.", UPSTREAM) {
            clusters.entry(cluster.to_owned()).or_default().active = Some(value);
        } else if let Some(cluster) = between(name, "cluster.", INITIALIZED) {
            clusters.entry(cluster.to_owned()).or_default().initialized = Some(value);
        }
    })?;
    clusters.retain(|name, _| !ignored.cluster(name));
    if clusters.is_empty() {
        return downstream.map_or(Err(CountError::NoDownstream), |_| Err(CountError::NoUpstream));
    }
    let mut upstream = 0_u64;
    for (name, cluster) in clusters {
        upstream = upstream.saturating_add(match cluster {
            Cluster { active: Some(active), .. } => active,
            Cluster { initialized: Some(0), .. } => 0,
            Cluster { .. } => return Err(CountError::KeptOut(name)),
        });
    }
    Ok(Active { downstream: downstream.ok_or(CountError::NoDownstream)?, upstream })
}

/// The part of `name` between a begin and an end, if it is not empty.
fn between<'a>(name: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    name.strip_prefix(begin)?.strip_suffix(end).filter(|part| !part.is_empty())
}

#[cfg(test)]
#[path = "active_tests.rs"]
mod tests;
