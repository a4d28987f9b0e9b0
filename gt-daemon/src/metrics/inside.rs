//! What was read inside pods: the sidecar's state, Envoy's requests in flight, and how the reading fares.

use std::{fmt, sync::Arc};

use gt_common::connection::HcState;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _},
    metrics::gauge::ConstGauge,
};

use super::{
    families::{self, Family},
    words,
};
use crate::observe::{
    Board,
    board::{EnvoyShown, Shown},
};

/// [`Board`] as a collector.
#[derive(Debug)]
pub(super) struct Inside(pub(super) Arc<Board>);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PodLabels {
    namespace: String,
    pod: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabels {
    #[prometheus(flatten)]
    pod: PodLabels,
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SourceLabels {
    #[prometheus(flatten)]
    pod: PodLabels,
    source: &'static str,
}

/// A gauge of Envoys, and how its value is read.
type EnvoyMetric = (Family, fn(&EnvoyShown) -> Option<u64>);

fn labels(pod: &Shown) -> PodLabels {
    PodLabels { namespace: pod.namespace.clone(), pod: pod.pod.clone() }
}

/// Whether a pod's hc and Envoy answered last time; a source that was not asked is not told of.
fn ups(pod: &Shown) -> impl Iterator<Item = (&'static str, bool)> {
    let hc = pod.hc.and_then(|hc| hc.up).map(|up| ("hc", up));
    let envoy = pod.envoy.and_then(|envoy| envoy.up).map(|up| ("envoy", up));
    hc.into_iter().chain(envoy)
}

/// Whether all pods' hc, all pods' Envoys, and all LBs answered last time; a kind that no pod has, or that is not asked, is not
/// told of. Those of pods that are gone are expected to fall silent.
pub(super) fn all_up(board: &Board) -> Vec<(&'static str, bool)> {
    let pods = board.pods();
    let all: Vec<_> = pods.iter().filter(|pod| !pod.gone).flat_map(ups).collect();
    ["hc", "envoy"]
        .into_iter()
        .filter_map(|source| {
            let mut of_source = all.iter().filter(|(name, _)| *name == source).peekable();
            of_source.peek()?;
            Some((source, of_source.all(|(_, up)| *up)))
        })
        .chain(board.lb.all_up().map(|up| ("lb", up)))
        .collect()
}

impl Collector for Inside {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let pods = self.0.pods();
        let mut family = families::HC_STATE.begin(&mut encoder)?;
        for (pod, hc) in pods.iter().filter_map(|pod| Some((pod, pod.hc?))) {
            for state in HcState::ALL {
                let labels = StateLabels { pod: labels(pod), state: words::hc(state as u8) };
                ConstGauge::new(i64::from(state == hc.state)).encode(family.encode_family(&labels)?)?;
            }
        }
        let gauges: [EnvoyMetric; 2] = [
            (families::DOWNSTREAM, |envoy| envoy.downstream_rq_active),
            (families::UPSTREAM, |envoy| envoy.upstream_rq_active),
        ];
        for (family, value) in gauges {
            let mut family = family.begin(&mut encoder)?;
            for (pod, value) in pods.iter().filter_map(|pod| Some((pod, value(&pod.envoy?)?))) {
                let value = i64::try_from(value).unwrap_or(i64::MAX);
                ConstGauge::new(value).encode(family.encode_family(&labels(pod))?)?;
            }
        }
        let mut family = families::POD_SOURCE_UP.begin(&mut encoder)?;
        for pod in &pods {
            for (source, up) in ups(pod) {
                let labels = SourceLabels { pod: labels(pod), source };
                ConstGauge::new(i64::from(up)).encode(family.encode_family(&labels)?)?;
            }
        }
        let mut family = families::POLL_SECONDS.begin(&mut encoder)?;
        for (source, meter) in [("hc", &self.0.hc), ("envoy", &self.0.envoy), ("lb", &self.0.lb.meter)] {
            meter.seconds().encode(family.encode_family(&[("source", source)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{encoding::text, registry::Registry};

    use super::*;
    use crate::observe::board::HcShown;

    /// Name, gone, state, up, Envoy.
    type Row = (&'static str, bool, HcState, Option<bool>, Option<EnvoyShown>);

    fn board(pods: &[Row]) -> Arc<Board> {
        let board = Arc::new(Board::default());
        for (pod, gone, state, up, envoy) in pods {
            let hc = Some(HcShown { state: *state, up: *up });
            let shown = Shown { namespace: "n".into(), pod: (*pod).into(), gone: *gone, hc, envoy: *envoy };
            board.show(&(*pod).into(), shown);
        }
        board
    }

    /// Exercises a pod with all and one with nothing known yet, so that unknown is no series but the state's own.
    #[test]
    fn series() {
        let envoy = |up, active| EnvoyShown { up, downstream_rq_active: active, upstream_rq_active: None };
        let board = board(&[
            ("a", false, HcState::Draining, Some(true), Some(envoy(Some(true), Some(0)))),
            ("b", false, HcState::Unknown, None, Some(envoy(Some(false), None))),
        ]);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Inside(board)));
        let mut text = String::new();
        text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"gt_hc_state{namespace="n",pod="a",state="DRAINING"} 1"#,
            r#"gt_hc_state{namespace="n",pod="a",state="unknown"} 0"#,
            r#"gt_hc_state{namespace="n",pod="b",state="unknown"} 1"#,
            r#"gt_envoy_downstream_rq_active{namespace="n",pod="a"} 0"#,
            r#"gt_pod_source_up{namespace="n",pod="a",source="hc"} 1"#,
            r#"gt_pod_source_up{namespace="n",pod="b",source="envoy"} 0"#,
            r#"gt_poll_seconds_count{source="hc"} 0"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert_eq!(text.matches("gt_hc_state{").count(), 12);
        for absent in [
            "gt_envoy_upstream_rq_active{",
            r#"gt_envoy_downstream_rq_active{namespace="n",pod="b""#,
            r#"pod="b",source="hc""#,
        ] {
            assert!(!text.contains(absent), "{absent} in\n{text}");
        }
    }

    /// Exercises one pod that does not answer among others, so that it shows, and is forgotten when it is gone.
    #[test]
    fn all_of_a_kind() {
        let up = |pods: &[Row]| all_up(&board(pods));
        let pod = |name, gone, up| (name, gone, HcState::Open, up, None);
        assert_eq!(up(&[]), []);
        assert_eq!(up(&[pod("a", false, None)]), []);
        assert_eq!(up(&[pod("a", false, Some(true)), pod("b", false, None)]), [("hc", true)]);
        assert_eq!(up(&[pod("a", false, Some(true)), pod("b", false, Some(false))]), [("hc", false)]);
        assert_eq!(up(&[pod("a", false, Some(true)), pod("b", true, Some(false))]), [("hc", true)]);
    }
}
