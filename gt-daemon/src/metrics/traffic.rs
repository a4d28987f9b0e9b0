//! Counts of watched pods, read from the kernel at the moment of the scrape.

use std::{collections::BTreeMap, fmt, sync::Arc};

use gt_common::{
    connection::{CutKey, Evidence, HcState, How, Lane},
    counters::{LaneCounters, RstReceived, RstSent},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, MetricEncoder},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use super::words;
use crate::{
    pods::owners::{Name, Owner, Owners},
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

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct PodLabels {
    namespace: String,
    pod: String,
    container: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LaneLabels {
    #[prometheus(flatten)]
    pod: PodLabels,
    role: &'static str,
    class: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RstLabels {
    #[prometheus(flatten)]
    lane: LaneLabels,
    direction: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct CutLabels {
    #[prometheus(flatten)]
    pod: PodLabels,
    role: &'static str,
    how: &'static str,
    cause: &'static str,
    hc_state: &'static str,
    evidence: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct InFlightRstLabels {
    #[prometheus(flatten)]
    pod: PodLabels,
    role: &'static str,
    direction: &'static str,
    hc_state: &'static str,
    evidence: &'static str,
}

/// One owner's counts. Two pods of the same name (one deleted, one new) share their series, and what the old
/// one had counted stays in them when it is forgotten.
struct Counted {
    labels: PodLabels,
    by_namespace: bool,
    /// Of the pods that are there, from which gauges follow.
    live: [LaneCounters; Lane::COUNT],
    /// With those that are forgotten: a connection nobody watches any more is in no gauge.
    all: [LaneCounters; Lane::COUNT],
}

impl From<&Name> for PodLabels {
    fn from(name: &Name) -> Self {
        Self { namespace: name.namespace.clone(), pod: name.pod.clone(), container: name.container.clone() }
    }
}

impl Counted {
    fn lanes<'a>(
        &self,
        lanes: &'a [LaneCounters; Lane::COUNT],
    ) -> impl Iterator<Item = (Lane, LaneLabels, &'a LaneCounters)> {
        Lane::ALL.into_iter().zip(lanes).map(|(lane, counters)| {
            let (role, class) = words::lane(lane);
            (lane, LaneLabels { pod: self.labels.clone(), role, class }, counters)
        })
    }
}

/// A metric with a series for each lane: name, help, and how its value is read.
type LaneMetric = (&'static str, &'static str, fn(&LaneCounters) -> u64);

/// What one scrape shows.
struct Scrape {
    counted: Vec<Counted>,
    cuts: BTreeMap<CutLabels, u64>,
    resets: BTreeMap<InFlightRstLabels, u64>,
}

impl Traffic {
    fn read(&self) -> Result<Scrape, fmt::Error> {
        let told = |error| {
            tracing::error!(%error, "cannot read the kernel's counts");
            fmt::Error
        };
        let _slots_stay_whose_they_are = self.owners.reader();
        let published = self.owners.now();
        let mut cuts_by_slot: BTreeMap<u32, Vec<(CutKey, u64)>> = BTreeMap::new();
        for (key, count) in self.maps.cuts().map_err(told)? {
            cuts_by_slot.entry(key.slot).or_default().push((key, count));
        }
        let mut scrape = Scrape { counted: Vec::new(), cuts: BTreeMap::new(), resets: BTreeMap::new() };
        for Owner { slot, name, uid: _, by_namespace } in &published.owners {
            let lanes = self.maps.counters(*slot).map_err(told)?.lanes;
            let labels = PodLabels::from(name);
            scrape.zero_cuts(&labels);
            for (key, count) in cuts_by_slot.remove(slot).unwrap_or_default() {
                scrape.add_cut(&labels, &key, count);
            }
            match scrape.counted.last_mut() {
                // The list is sorted by these labels.
                Some(last) if last.labels == labels => {
                    last.by_namespace |= by_namespace;
                    add(&mut last.live, &lanes);
                    add(&mut last.all, &lanes);
                }
                _ => scrape.counted.push(Counted {
                    labels,
                    by_namespace: *by_namespace,
                    live: lanes,
                    all: lanes,
                }),
            }
        }
        for (name, retired) in &published.retired {
            let labels = PodLabels::from(name);
            if let Some(counted) = scrape.counted.iter_mut().find(|counted| counted.labels == labels) {
                add(&mut counted.all, &retired.counters.lanes);
                for (key, count) in &retired.cuts {
                    scrape.add_cut(&labels, key, *count);
                }
            }
        }
        Ok(scrape)
    }

    /// Whether a reason can occur on a lane at all, so that its count is shown while it is zero.
    fn sent_is_shown(&self, counted: &Counted, lane: Lane, why: RstSent) -> bool {
        match why {
            RstSent::Active | RstSent::Reply => true,
            RstSent::NoSocket => {
                let inbound = matches!(lane, Lane::Data | Lane::Health | Lane::Admin);
                self.sees_no_socket && counted.by_namespace && inbound
            }
            RstSent::TimeWait => self.sees_no_socket && counted.by_namespace && lane == Lane::Unknown,
        }
    }
}

impl Scrape {
    /// A watched pod's counters exist at 0 from the moment it is watched.
    fn zero_cuts(&mut self, pod: &PodLabels) {
        for evidence in Evidence::CUTS {
            for how in How::ENDS {
                self.cuts.entry(cut(pod, how as u8, evidence as u8, HcState::Unknown as u8)).or_default();
            }
            for rst in [1, 2] {
                self.resets.entry(reset(pod, rst, evidence as u8, HcState::Unknown as u8)).or_default();
            }
        }
    }

    fn add_cut(&mut self, pod: &PodLabels, key: &CutKey, count: u64) {
        if key.rst == 0 {
            *self.cuts.entry(cut(pod, key.how, key.evidence, key.hc)).or_default() += count;
        } else {
            *self.resets.entry(reset(pod, key.rst, key.evidence, key.hc)).or_default() += count;
        }
    }
}

fn cut(pod: &PodLabels, how: u8, evidence: u8, hc: u8) -> CutLabels {
    CutLabels {
        pod: pod.clone(),
        role: "inbound",
        how: words::how(how),
        // Who is to blame needs the hc's and the LB's word.
        cause: "unknown",
        hc_state: words::hc(hc),
        evidence: words::evidence(evidence),
    }
}

fn reset(pod: &PodLabels, rst: u8, evidence: u8, hc: u8) -> InFlightRstLabels {
    InFlightRstLabels {
        pod: pod.clone(),
        role: "inbound",
        direction: if rst == 1 { "sent" } else { "received" },
        hc_state: words::hc(hc),
        evidence: words::evidence(evidence),
    }
}

fn add(sum: &mut [LaneCounters; Lane::COUNT], part: &[LaneCounters; Lane::COUNT]) {
    sum.iter_mut().zip(part).for_each(|(sum, part)| sum.add(part));
}

fn counter(family: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, value: u64) -> fmt::Result {
    ConstCounter::new(value).encode(family.encode_family(labels)?)
}

impl Collector for Traffic {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let scrape = self.read()?;
        let counters: [LaneMetric; 3] = [
            ("gt_connections_opened", "TCP connections that became established", |c| c.opened),
            (
                "gt_connections_adopted",
                "TCP connections that were open when their pod began to be watched, or that a check of the \
                 table found missing",
                |c| c.adopted,
            ),
            ("gt_connections_closed", "TCP connections that had been established and are closed", |c| {
                c.closed
            }),
        ];
        for (name, help, value) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (_, labels, lane) in scrape.counted.iter().flat_map(|counted| counted.lanes(&counted.all)) {
                counter(&mut family, &labels, value(lane))?;
            }
        }
        let gauges: [LaneMetric; 2] = [
            ("gt_active_connections", "TCP connections now established", |c| {
                (c.opened + c.adopted).saturating_sub(c.left)
            }),
            ("gt_closing_connections", "TCP connections now between established and closed", |c| {
                c.left.saturating_sub(c.closed)
            }),
        ];
        for (name, help, value) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (_, labels, lane) in scrape.counted.iter().flat_map(|counted| counted.lanes(&counted.live)) {
                let value = i64::try_from(value(lane)).unwrap_or(i64::MAX);
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        self.encode_census(&mut encoder)?;
        self.encode_resets(&scrape, &mut encoder)?;
        let mut family = encoder.encode_descriptor(
            "gt_inflight_cuts",
            "Connections that ended while a request was in flight, each once, by what proves it",
            None,
            MetricType::Counter,
        )?;
        for (labels, count) in &scrape.cuts {
            counter(&mut family, labels, *count)?;
        }
        let mut family = encoder.encode_descriptor(
            "gt_rst_during_inflight",
            "Connections cut with a request in flight on which a TCP reset was sent or received, each once",
            None,
            MetricType::Counter,
        )?;
        for (labels, count) in &scrape.resets {
            counter(&mut family, labels, *count)?;
        }
        Ok(())
    }
}

impl Traffic {
    fn encode_census(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let census = self.owners.now().census;
        let mut family = encoder.encode_descriptor(
            "gt_pods",
            "Pods on this node: watched, unattributed (watched, but their sockets are not found: no series), \
             refused (no slot left) and gone (deleted, series kept for a while)",
            None,
            MetricType::Gauge,
        )?;
        for (state, count) in [
            ("watched", census.watched),
            ("unattributed", census.unattributed),
            ("refused", census.refused),
            ("gone", census.gone),
        ] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            ConstGauge::new(count).encode(family.encode_family(&[("state", state)])?)?;
        }
        Ok(())
    }

    fn encode_resets(&self, scrape: &Scrape, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "gt_rst",
            "TCP resets sent, and those received and acted on",
            None,
            MetricType::Counter,
        )?;
        for counted in &scrape.counted {
            for (lane, labels, counters) in counted.lanes(&counted.all) {
                for (why, count) in RstSent::ALL.into_iter().zip(counters.rst_sent) {
                    if count > 0 || self.sent_is_shown(counted, lane, why) {
                        let labels = RstLabels {
                            lane: labels.clone(),
                            direction: "sent",
                            reason: words::sent_reason(why),
                        };
                        counter(&mut family, &labels, count)?;
                    }
                }
                for (how, count) in RstReceived::ALL.into_iter().zip(counters.rst_received) {
                    let dials = matches!(lane, Lane::Outbound | Lane::Loopback);
                    if count > 0 || how == RstReceived::Reset || dials {
                        let labels = RstLabels {
                            lane: labels.clone(),
                            direction: "received",
                            reason: words::received_reason(how),
                        };
                        counter(&mut family, &labels, count)?;
                    }
                }
            }
        }
        Ok(())
    }
}
