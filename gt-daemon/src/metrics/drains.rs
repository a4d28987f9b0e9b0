//! Drains of the watched pods, by how they ended.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::{MetricType, gauge::ConstGauge},
};

use super::traffic::counter;
use crate::drain::ledger::{Ledger, Name};

/// [`Ledger`] as a collector.
#[derive(Debug)]
pub(super) struct DrainMetrics(pub(super) Arc<Ledger>);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PodLabels {
    namespace: String,
    pod: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VerdictLabels {
    #[prometheus(flatten)]
    pod: PodLabels,
    verdict: &'static str,
}

fn labels((namespace, pod): &Name) -> PodLabels {
    PodLabels { namespace: namespace.clone(), pod: pod.clone() }
}

impl Collector for DrainMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "gt_drains",
            "Drains that are over, by verdict: whether a request was cut",
            None,
            MetricType::Counter,
        )?;
        for (name, outcomes) in &self.0.ended() {
            for (outcome, count) in outcomes {
                let labels = VerdictLabels { pod: labels(name), verdict: outcome.word() };
                counter(&mut family, &labels, *count)?;
            }
        }
        let mut family = encoder.encode_descriptor(
            "gt_drain_started_timestamp_seconds",
            "When the pod's drain began: its first sign, such as the request to delete it, not the deadline",
            None,
            MetricType::Gauge,
        )?;
        for (name, begun) in &self.0.started() {
            #[expect(
                clippy::cast_precision_loss,
                reason = "microseconds since 1970 are exact in a double until 2255"
            )]
            let seconds = *begun as f64 / 1e6;
            ConstGauge::new(seconds).encode(family.encode_family(&labels(name))?)?;
        }
        let family = encoder.encode_descriptor(
            "gt_drain_to_active_zero_seconds",
            "From the beginning of a drain until nothing was in flight at the pod's Envoy any more",
            None,
            MetricType::Histogram,
        )?;
        self.0.to_active_zero().encode(family)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text, registry::Registry};

    use super::*;
    use crate::drain::{
        fact::{Fact, Timed},
        follow::View,
        record::Record,
    };

    /// Exercises a pod that drains and one that does not, so that each has its series, and times are those of the
    /// beginning.
    #[test]
    fn series() {
        let ledger = Arc::new(Ledger::new(1));
        let view = |pod: &str| View {
            uid: pod.into(),
            namespace: "n".to_owned(),
            pod: pod.to_owned(),
            deletion: None,
            gone: false,
            attributed: true,
            has_hc: true,
            has_envoy: true,
        };
        let (a, b) = (view("a"), view("b"));
        ledger.watched([(&a, Some(1_780_211_554_250_000)), (&b, None)]);
        let facts = [
            (0, Fact::PodDeleted { grace_seconds: 30 }),
            (700_000, Fact::EnvoyActiveCount { downstream: Some(0), upstream: Some(0) }),
            (900_000, Fact::Ended),
        ];
        let facts = facts.map(|(ts, fact)| Timed { ts, fact }).to_vec();
        ledger.over(&Arc::new(Record::of("n", "a", "a", facts, 0).unwrap()));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(DrainMetrics(ledger)));
        let mut text = String::new();
        text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"gt_drains_total{namespace="n",pod="a",verdict="protected"} 1"#,
            r#"gt_drains_total{namespace="n",pod="a",verdict="broken"} 0"#,
            r#"gt_drains_total{namespace="n",pod="b",verdict="inconclusive"} 0"#,
            r#"gt_drain_started_timestamp_seconds{namespace="n",pod="a"} 1780211554.25"#,
            r#"gt_drain_to_active_zero_seconds_bucket{le="0.5"} 0"#,
            r#"gt_drain_to_active_zero_seconds_bucket{le="1.0"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(!text.contains(r#"gt_drain_started_timestamp_seconds{namespace="n",pod="b""#), "{text}");
    }
}
