//! The stats gt reads, by the part of the name that tells what is counted.

/// What a row counts. Names are Envoy's, in its documentation below "HTTP connection manager", "Cluster manager"
/// and "Server".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stat {
    DownstreamRqActive,
    DownstreamCxActive,
    UpstreamRqActive,
    /// 1 once a cluster's stats exist, where they are made with its first request (`deferred_stat_options`).
    ClusterInitialized,
    ServerLive,
    ServerState,
    ServerUptime,
    ListenersDraining,
    DownstreamRqTotal,
    DownstreamCxTotal,
    DownstreamCxDestroy,
    DownstreamCxDestroyActiveRq,
    DownstreamCxDestroyLocalActiveRq,
    DownstreamCxDestroyRemoteActiveRq,
    DownstreamCxDrainClose,
    DownstreamRqRxReset,
    DownstreamRqTxReset,
    UpstreamCxDestroyLocalWithActiveRq,
    UpstreamCxDestroyRemoteWithActiveRq,
    UpstreamRqRxReset,
    UpstreamRqTxReset,
    ListenerStopped,
}

/// Whose stat it is: the first part of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// `http.<prefix>.`
    Http,
    /// `cluster.<name>.`
    Cluster,
    /// `server.`
    Server,
    /// `listener_manager.`
    ListenerManager,
}

impl Group {
    /// The first part of the names.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Cluster => "cluster",
            Self::Server => "server",
            Self::ListenerManager => "listener_manager",
        }
    }
}

/// How Envoy keeps it, and asks for it with `type=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Gauge,
    Counter,
}

impl Stat {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 22] = [
        Self::DownstreamRqActive,
        Self::DownstreamCxActive,
        Self::UpstreamRqActive,
        Self::ClusterInitialized,
        Self::ServerLive,
        Self::ServerState,
        Self::ServerUptime,
        Self::ListenersDraining,
        Self::DownstreamRqTotal,
        Self::DownstreamCxTotal,
        Self::DownstreamCxDestroy,
        Self::DownstreamCxDestroyActiveRq,
        Self::DownstreamCxDestroyLocalActiveRq,
        Self::DownstreamCxDestroyRemoteActiveRq,
        Self::DownstreamCxDrainClose,
        Self::DownstreamRqRxReset,
        Self::DownstreamRqTxReset,
        Self::UpstreamCxDestroyLocalWithActiveRq,
        Self::UpstreamCxDestroyRemoteWithActiveRq,
        Self::UpstreamRqRxReset,
        Self::UpstreamRqTxReset,
        Self::ListenerStopped,
    ];

    /// Group, last part of the name, and kind.
    #[must_use]
    pub fn describe(self) -> (Group, &'static str, Kind) {
        use Group::{Cluster, Http, ListenerManager, Server};
        use Kind::{Counter, Gauge};
        match self {
            Self::DownstreamRqActive => (Http, "downstream_rq_active", Gauge),
            Self::DownstreamCxActive => (Http, "downstream_cx_active", Gauge),
            Self::UpstreamRqActive => (Cluster, "upstream_rq_active", Gauge),
            Self::ClusterInitialized => (Cluster, "ClusterTrafficStats.initialized", Gauge),
            Self::ServerLive => (Server, "live", Gauge),
            Self::ServerState => (Server, "state", Gauge),
            Self::ServerUptime => (Server, "uptime", Gauge),
            Self::ListenersDraining => (ListenerManager, "total_listeners_draining", Gauge),
            Self::DownstreamRqTotal => (Http, "downstream_rq_total", Counter),
            Self::DownstreamCxTotal => (Http, "downstream_cx_total", Counter),
            Self::DownstreamCxDestroy => (Http, "downstream_cx_destroy", Counter),
            Self::DownstreamCxDestroyActiveRq => (Http, "downstream_cx_destroy_active_rq", Counter),
            Self::DownstreamCxDestroyLocalActiveRq => {
                (Http, "downstream_cx_destroy_local_active_rq", Counter)
            }
            Self::DownstreamCxDestroyRemoteActiveRq => {
                (Http, "downstream_cx_destroy_remote_active_rq", Counter)
            }
            Self::DownstreamCxDrainClose => (Http, "downstream_cx_drain_close", Counter),
            Self::DownstreamRqRxReset => (Http, "downstream_rq_rx_reset", Counter),
            Self::DownstreamRqTxReset => (Http, "downstream_rq_tx_reset", Counter),
            Self::UpstreamCxDestroyLocalWithActiveRq => {
                (Cluster, "upstream_cx_destroy_local_with_active_rq", Counter)
            }
            Self::UpstreamCxDestroyRemoteWithActiveRq => {
                (Cluster, "upstream_cx_destroy_remote_with_active_rq", Counter)
            }
            Self::UpstreamRqRxReset => (Cluster, "upstream_rq_rx_reset", Counter),
            Self::UpstreamRqTxReset => (Cluster, "upstream_rq_tx_reset", Counter),
            Self::ListenerStopped => (ListenerManager, "listener_stopped", Counter),
        }
    }

    /// The group.
    #[must_use]
    pub fn group(self) -> Group {
        self.describe().0
    }

    /// The kind.
    #[must_use]
    pub fn kind(self) -> Kind {
        self.describe().2
    }

    /// The stat of an Envoy name such as `http.outbound_0.0.0.0_8080;.downstream_rq_active`, and its scope: what
    /// stands between group and last part, empty for the server's own.
    #[must_use]
    pub fn of_name(name: &str) -> Option<(Self, &str)> {
        Self::find(name, |group, last| {
            let rest = name.strip_prefix(group.word())?.strip_prefix('.')?;
            match group {
                Group::Http | Group::Cluster => {
                    rest.strip_suffix(last)?.strip_suffix('.').filter(|scope| !scope.is_empty())
                }
                Group::Server | Group::ListenerManager => (rest == last).then_some(""),
            }
        })
    }

    /// The same for a name of Prometheus' form, such as `envoy_http_downstream_rq_active`. What stands between is
    /// what Envoy's tags have left in the name: nothing, a part, or (in Istio) all of the scope.
    #[must_use]
    pub fn of_metric(metric: &str) -> Option<(Self, &str)> {
        let name = metric.strip_prefix("envoy_")?;
        Self::find(name, |group, last| {
            let rest = name.strip_prefix(group.word())?;
            let between = match last {
                "ClusterTrafficStats.initialized" => rest.strip_suffix("ClusterTrafficStats_initialized"),
                _ => rest.strip_suffix(last),
            }?;
            let between = between.strip_prefix('_')?;
            match group {
                Group::Http | Group::Cluster => {
                    (between.is_empty() || between.ends_with('_')).then(|| between.trim_end_matches('_'))
                }
                Group::Server | Group::ListenerManager => between.is_empty().then_some(""),
            }
        })
    }

    fn find<'a>(
        name: &str,
        scope: impl Fn(Group, &'static str) -> Option<&'a str>,
    ) -> Option<(Self, &'a str)> {
        // Most rows of an unfiltered answer are of other groups: they leave here.
        if !matches!(name.as_bytes().first(), Some(b'h' | b'c' | b's' | b'l')) {
            return None;
        }
        Self::ALL.into_iter().find_map(|stat| {
            let (group, last, _) = stat.describe();
            scope(group, last).map(|scope| (stat, scope))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises names of both forms, so that each row counts once and as what it is.
    #[test]
    fn names() {
        let some = |stat, scope| Some((stat, scope));
        let of = Stat::of_name;
        assert_eq!(of("http.ingress.downstream_rq_active"), some(Stat::DownstreamRqActive, "ingress"));
        assert_eq!(
            of("http.outbound_0.0.0.0_8080;.downstream_cx_destroy_remote_active_rq"),
            some(Stat::DownstreamCxDestroyRemoteActiveRq, "outbound_0.0.0.0_8080;")
        );
        assert_eq!(
            of("cluster.outbound|80||a.b.svc.cluster.local;.upstream_rq_active"),
            some(Stat::UpstreamRqActive, "outbound|80||a.b.svc.cluster.local;")
        );
        assert_eq!(of("cluster.a;.ClusterTrafficStats.initialized"), some(Stat::ClusterInitialized, "a;"));
        assert_eq!(of("server.uptime"), some(Stat::ServerUptime, ""));
        for other in [
            "cluster.a.upstream_rq_active_overflow",
            "http.downstream_rq_active",
            "httpx.a.downstream_rq_active",
            "listener.0.0.0.0_8080.http.ingress.downstream_rq_total",
            "server.a.uptime",
            "server.state.x",
            "http.a.downstream_rq_http1_total",
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    /// Exercises Prometheus' names as Envoy's own tags, Istio's tags and no tags leave them.
    #[test]
    fn metrics() {
        let some = |stat, scope| Some((stat, scope));
        let of = Stat::of_metric;
        assert_eq!(of("envoy_http_downstream_rq_active"), some(Stat::DownstreamRqActive, ""));
        assert_eq!(
            of("envoy_http_outbound_0_0_0_0_8080__downstream_rq_active"),
            some(Stat::DownstreamRqActive, "outbound_0_0_0_0_8080")
        );
        assert_eq!(of("envoy_cluster_upstream_rq_rx_reset"), some(Stat::UpstreamRqRxReset, ""));
        assert_eq!(of("envoy_cluster_ClusterTrafficStats_initialized"), some(Stat::ClusterInitialized, ""));
        assert_eq!(of("envoy_listener_manager_listener_stopped"), some(Stat::ListenerStopped, ""));
        for other in [
            "http_downstream_rq_active",
            "envoy_httpdownstream_rq_active",
            "envoy_http_xdownstream_rq_active",
            "envoy_listener_http_downstream_rq_xx",
            "envoy_server_worker_0_state",
            "envoy_",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    /// Exercises the list, so that a stat's number is its place in it.
    #[test]
    fn the_list_is_whole() {
        for (index, stat) in Stat::ALL.into_iter().enumerate() {
            assert_eq!(stat as usize, index);
        }
    }
}
