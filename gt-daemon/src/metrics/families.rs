//! Every metric family, once: what stands of it in the exposition and in `docs/metrics.md`.
//!
//! The tables of the document are written from here; a unit test compares them. The kernel tests compare each scrape with it.

#[cfg(test)]
mod document;

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, MetricEncoder},
    metrics::MetricType,
};

/// A family of metrics.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Without the suffix that OpenMetrics gives to samples, such as `_total`.
    pub name: &'static str,
    pub kind: MetricType,
    /// Their order is that of the exposition.
    pub labels: &'static [&'static str],
    pub help: &'static str,
    /// When it has no series, in words; empty: never.
    pub absent: &'static str,
}

impl Family {
    /// Begins it in an exposition.
    pub(super) fn begin<'a>(
        &self,
        encoder: &'a mut DescriptorEncoder<'_>,
    ) -> Result<MetricEncoder<'a>, fmt::Error> {
        encoder.encode_descriptor(self.name, self.help, None, self.kind)
    }

    /// Its type, as OpenMetrics 1.0.0 calls it, and what the names of its samples end with (the buckets of a histogram left out).
    #[must_use]
    pub fn words(&self) -> (&'static str, &'static [&'static str]) {
        match self.kind {
            MetricType::Counter => ("counter", &["_total"]),
            MetricType::Gauge => ("gauge", &[""]),
            MetricType::Histogram => ("histogram", &["_bucket", "_count", "_sum"]),
            MetricType::Info => ("info", &["_info"]),
            _ => ("unknown", &[""]),
        }
    }
}

/// Shorthand, so that a family is one block below.
const fn family(
    name: &'static str,
    kind: MetricType,
    labels: &'static [&'static str],
    help: &'static str,
    absent: &'static str,
) -> Family {
    Family { name, kind, labels, help, absent }
}

const LANE: &[&str] = &["namespace", "pod", "container", "role", "class"];
const POD: &[&str] = &["namespace", "pod"];
const NO_OWNER: &str = "nothing in the kernel leads to the pod yet";
const NOT_TOLD: &str = "the last look failed, there was none yet, or Envoy keeps no such stat";

pub const OPENED: Family = family(
    "gt_connections_opened",
    MetricType::Counter,
    LANE,
    "TCP connections that became established",
    NO_OWNER,
);
pub const ADOPTED: Family = family(
    "gt_connections_adopted",
    MetricType::Counter,
    LANE,
    "TCP connections that were open when their pod began to be watched, or that a check of the table found missing",
    NO_OWNER,
);
pub const CLOSED: Family = family(
    "gt_connections_closed",
    MetricType::Counter,
    LANE,
    "TCP connections that had been established and are closed",
    NO_OWNER,
);
pub const ACTIVE: Family =
    family("gt_active_connections", MetricType::Gauge, LANE, "TCP connections now established", NO_OWNER);
pub const CLOSING: Family = family(
    "gt_closing_connections",
    MetricType::Gauge,
    LANE,
    "TCP connections now between established and closed",
    NO_OWNER,
);
pub const RST: Family = family(
    "gt_rst",
    MetricType::Counter,
    &["namespace", "pod", "container", "role", "class", "direction", "reason"],
    "TCP resets sent, and those received and acted on",
    "nothing in the kernel leads to the pod yet, or the hook in use cannot see such an RST",
);
pub const CUTS: Family = family(
    "gt_inflight_cuts",
    MetricType::Counter,
    &["namespace", "pod", "container", "role", "how", "cause", "hc_state", "evidence"],
    "Requests in flight that were cut: connections, each once, and streams of HTTP/2, by what proves it and who is to blame",
    NO_OWNER,
);
pub const CUTS_WITH_RST: Family = family(
    "gt_rst_during_inflight",
    MetricType::Counter,
    &["namespace", "pod", "container", "role", "direction", "hc_state", "evidence"],
    "Connections cut with a request in flight on which a TCP reset was sent or received, each once",
    NO_OWNER,
);

pub const HC_STATE: Family = family(
    "gt_hc_state",
    MetricType::Gauge,
    &["namespace", "pod", "state"],
    "Whether the pod's health sidecar is in this state (1) or not (0)",
    "the pod has no health sidecar",
);
pub const DOWNSTREAM: Family = family(
    "gt_envoy_downstream_rq_active",
    MetricType::Gauge,
    POD,
    "Requests in flight from clients, as the pod's Envoy told at the last look",
    NOT_TOLD,
);
pub const UPSTREAM: Family = family(
    "gt_envoy_upstream_rq_active",
    MetricType::Gauge,
    POD,
    "Requests in flight to services, as the pod's Envoy told at the last look",
    NOT_TOLD,
);
pub const POD_SOURCE_UP: Family = family(
    "gt_pod_source_up",
    MetricType::Gauge,
    &["namespace", "pod", "source"],
    "Whether the pod's health sidecar, or Envoy, answered last time (1) or not (0)",
    "it was not asked yet, or is asked no longer",
);

pub const DRAINS: Family = family(
    "gt_drains",
    MetricType::Counter,
    &["namespace", "pod", "verdict"],
    "Drains that are over, by verdict: whether a request was cut",
    "nothing in the kernel leads to the pod yet, and it had no drain",
);
pub const DRAIN_STARTED: Family = family(
    "gt_drain_started_timestamp_seconds",
    MetricType::Gauge,
    POD,
    "When the pod's drain began: its first sign, such as the request to delete it, not the deadline",
    "the pod does not drain, or its drain was called off",
);
pub const TO_ACTIVE_ZERO: Family = family(
    "gt_drain_to_active_zero_seconds",
    MetricType::Histogram,
    &[],
    "From the beginning of a drain until nothing was in flight at the pod's Envoy any more",
    "",
);
pub const TO_LB_DOWN: Family = family(
    "gt_active_zero_to_lb_down_seconds",
    MetricType::Histogram,
    &[],
    "From nothing in flight until the load balancer was seen to have marked the pod DOWN, where that was the order",
    "",
);
pub const FROM_LB_DOWN: Family = family(
    "gt_lb_down_to_active_zero_seconds",
    MetricType::Histogram,
    &[],
    "How long requests were in flight after the load balancer had marked the pod DOWN, where it was too early",
    "",
);

pub const PODS: Family = family(
    "gt_pods",
    MetricType::Gauge,
    &["state"],
    "Pods on this node: watched, unattributed (watched, but their sockets are not found: no series), refused (no slot left) \
     and gone (deleted, series kept for a while)",
    "",
);
pub const HOOK_ATTACHED: Family = family(
    "gt_hook_attached",
    MetricType::Gauge,
    &["hook", "backend"],
    "Whether a hook answers its question by this backend, and passed the self-check (1) or not (0)",
    "before the self-check",
);
pub const EVENTS_LOST: Family = family(
    "gt_events_lost",
    MetricType::Counter,
    &["where"],
    "What was not seen, by where it was lost; counters of pods stay right when the ring is full",
    "never, but see `skipped_run` below",
);
pub const CORRECTED: Family = family(
    "gt_connections_corrected",
    MetricType::Counter,
    &[],
    "Connections that had ended without a hook telling, found by a check of the table",
    "",
);
pub const CHECK_SECONDS: Family = family(
    "gt_table_check_seconds",
    MetricType::Histogram,
    &[],
    "How long it took to compare the table of connections with the sockets of one network namespace",
    "",
);
pub const SOURCE_UP: Family = family(
    "gt_source_up",
    MetricType::Gauge,
    &["source"],
    "Whether a source of pods, or all sources of a kind inside pods, answered last time (1) or not (0)",
    "before its first answer or fault; while it is not asked (`lb`: while no pod drains), or no pod has it",
);
pub const POLL_SECONDS: Family = family(
    "gt_poll_seconds",
    MetricType::Histogram,
    &["source"],
    "How long looks at health sidecars, Envoys and load balancers took, answered or not",
    "",
);
pub const BUILD: Family = family(
    "gt_build",
    MetricType::Info,
    &["version", "ebpf_sha256"],
    "Version of the daemon and SHA-256 of its kernel programs",
    "",
);

/// All of them: the name of a table of the document, and its rows.
pub const TABLES: [(&str, &[Family]); 4] = [
    ("pods", &[OPENED, ADOPTED, CLOSED, ACTIVE, CLOSING, RST, CUTS, CUTS_WITH_RST]),
    ("inside", &[HC_STATE, DOWNSTREAM, UPSTREAM, POD_SOURCE_UP]),
    ("drains", &[DRAINS, DRAIN_STARTED, TO_ACTIVE_ZERO, TO_LB_DOWN, FROM_LB_DOWN]),
    ("gt", &[PODS, HOOK_ATTACHED, EVENTS_LOST, CORRECTED, CHECK_SECONDS, SOURCE_UP, POLL_SECONDS, BUILD]),
];
