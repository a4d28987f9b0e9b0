//! Counts of watched pods, read from the kernel at the moment of the scrape.

use std::sync::Arc;

use gt_common::counters::{Counters, RstReceived, RstSent};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter},
};

use crate::{
    pods::owners::{Owner, Owners},
    probes::maps::Maps,
};

/// The watched pods' counts.
#[derive(Debug)]
pub struct Traffic {
    pub owners: Arc<Owners>,
    pub maps: Arc<Maps>,
    /// Whether RSTs without a full socket are seen. Where not, their number is unknown: no series, not zero.
    pub sees_no_socket: bool,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OwnerLabels {
    namespace: String,
    pod: String,
    container: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RstLabels {
    namespace: String,
    pod: String,
    container: String,
    direction: &'static str,
    reason: &'static str,
}

impl OwnerLabels {
    fn rst(&self, direction: &'static str, reason: &'static str) -> RstLabels {
        RstLabels {
            namespace: self.namespace.clone(),
            pod: self.pod.clone(),
            container: self.container.clone(),
            direction,
            reason,
        }
    }
}

/// The value of the label `reason` for an RST sent.
#[must_use]
fn sent_reason(why: RstSent) -> &'static str {
    match why {
        RstSent::Active => "active",
        RstSent::Reply => "reply",
        RstSent::TimeWait => "time_wait",
        RstSent::NoSocket => "no_socket",
    }
}

/// The value of the label `reason` for an RST received.
#[must_use]
fn received_reason(how: RstReceived) -> &'static str {
    match how {
        RstReceived::Reset => "reset",
        RstReceived::Refused => "refused",
    }
}

impl Traffic {
    /// Counts by labels. Two pods of the same name (one deleted, one new) share their series: the sum only
    /// grows until the old one is forgotten, which Prometheus reads as a counter's reset.
    fn read(&self) -> Result<Vec<(OwnerLabels, Counters)>, std::fmt::Error> {
        let mut counts: Vec<(OwnerLabels, Counters)> = Vec::new();
        for Owner { slot, namespace, pod, uid: _, container } in self.owners.list() {
            let counters = self.maps.counters(slot).map_err(|error| {
                tracing::error!(%error, pod, "cannot read a pod's counts");
                std::fmt::Error
            })?;
            let labels = OwnerLabels { namespace, pod, container };
            match counts.last_mut() {
                // The list is sorted by these labels.
                Some((last, sum)) if *last == labels => sum.add(&counters),
                _ => counts.push((labels, counters)),
            }
        }
        Ok(counts)
    }
}

impl Collector for Traffic {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counts = self.read()?;
        let mut family = encoder.encode_descriptor(
            "gt_connections_opened",
            "TCP connections of the pod that became established, inbound and outbound",
            None,
            MetricType::Counter,
        )?;
        for (labels, counters) in &counts {
            ConstCounter::new(counters.opened).encode(family.encode_family(labels)?)?;
        }
        let mut family = encoder.encode_descriptor(
            "gt_connections_closed",
            "TCP connections of the pod that had been established and are closed",
            None,
            MetricType::Counter,
        )?;
        for (labels, counters) in &counts {
            ConstCounter::new(counters.closed).encode(family.encode_family(labels)?)?;
        }
        let mut family = encoder.encode_descriptor(
            "gt_rst",
            "TCP resets the pod sent, and those it received and acted on",
            None,
            MetricType::Counter,
        )?;
        for (labels, counters) in &counts {
            for (why, count) in RstSent::ALL.into_iter().zip(counters.rst_sent) {
                let seen = self.sees_no_socket || !matches!(why, RstSent::NoSocket | RstSent::TimeWait);
                if seen {
                    let labels = labels.rst("sent", sent_reason(why));
                    ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
                }
            }
            for (how, count) in RstReceived::ALL.into_iter().zip(counters.rst_received) {
                let labels = labels.rst("received", received_reason(how));
                ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
