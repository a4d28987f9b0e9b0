//! Drains of the watched pods, by how they ended.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::gauge::ConstGauge,
};

use super::{families, traffic::counter};
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
        let mut family = families::DRAINS.begin(&mut encoder)?;
        for (name, outcomes) in &self.0.ended() {
            for (outcome, count) in outcomes {
                let labels = VerdictLabels { pod: labels(name), verdict: outcome.word() };
                counter(&mut family, &labels, *count)?;
            }
        }
        let mut family = families::DRAIN_STARTED.begin(&mut encoder)?;
        for (name, begun) in &self.0.started() {
            #[expect(
                clippy::cast_precision_loss,
                reason = "microseconds since 1970 are exact in a double until 2255"
            )]
            let seconds = *begun as f64 / 1e6;
            ConstGauge::new(seconds).encode(family.encode_family(&labels(name))?)?;
        }
        for (family, histogram) in [
            (families::TO_ACTIVE_ZERO, self.0.to_active_zero()),
            (families::TO_LB_DOWN, self.0.to_lb_down()),
            (families::FROM_LB_DOWN, self.0.from_lb_down()),
        ] {
            histogram.encode(family.begin(&mut encoder)?)?;
        }
        Ok(())
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
        let down = Fact::HaproxyBackendDown { server: "b/s".to_owned(), last_up: None, predicted: false };
        let facts = [
            (0, Fact::PodDeleted { grace_seconds: 30 }),
            (700_000, Fact::EnvoyActiveCount { downstream: Some(0), upstream: Some(0) }),
            (1_100_000, down),
            (1_200_000, Fact::Ended),
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
            r#"gt_active_zero_to_lb_down_seconds_bucket{le="0.25"} 0"#,
            r#"gt_active_zero_to_lb_down_seconds_bucket{le="0.5"} 1"#,
            r#"gt_lb_down_to_active_zero_seconds_count 0"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(!text.contains(r#"gt_drain_started_timestamp_seconds{namespace="n",pod="b""#), "{text}");
    }
}
