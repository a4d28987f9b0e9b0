//! Counts of watched pods, read from the kernel at the moment of the scrape.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use gt_common::{
    connection::Lane,
    counters::{LaneCounters, RstReceived, RstSent},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, MetricEncoder},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

use super::{
    cuts::encode_cuts,
    families::{self, Family},
    words,
};
use crate::{
    correlate::Joins,
    pods::owners::{Name, Owner, Owners},
    probes::maps::Maps,
};

/// The watched pods' counts.
#[derive(Debug)]
pub struct Traffic {
    pub owners: Arc<Owners>,
    pub maps: Arc<Maps>,
    /// Cuts are the join's.
    pub joins: Arc<Mutex<Joins>>,
    /// Whether RSTs without a full socket are seen. Where not, their number is unknown: no series, not zero.
    pub sees_no_socket: bool,
}

/// A label by its name, both borrowed: hundreds of pods have tens of thousands of series.
pub(super) type Label<'a> = (&'static str, &'a str);

/// What tells owners apart.
pub(super) fn owner(name: &Name) -> [Label<'_>; 3] {
    [("namespace", &name.namespace), ("pod", &name.pod), ("container", &name.container)]
}

type LaneLabels<'a> = ([Label<'a>; 3], [Label<'static>; 2]);

/// One owner's counts. Two pods of the same name (one deleted, one new) share their series, and what the old
/// one had counted stays in them when it is forgotten.
struct Counted {
    name: Name,
    by_namespace: bool,
    /// Of the pods that are there, from which gauges follow.
    live: [LaneCounters; Lane::COUNT],
    /// With those that are forgotten: a connection nobody watches any more is in no gauge.
    all: [LaneCounters; Lane::COUNT],
}

impl Counted {
    fn lanes<'a>(
        &'a self,
        lanes: &'a [LaneCounters; Lane::COUNT],
    ) -> impl Iterator<Item = (Lane, LaneLabels<'a>, &'a LaneCounters)> {
        Lane::ALL.into_iter().zip(lanes).map(|(lane, counters)| {
            let (role, class) = words::lane(lane);
            (lane, (owner(&self.name), [("role", role), ("class", class)]), counters)
        })
    }
}

/// A metric with a series for each lane, and how its value is read.
type LaneMetric = (Family, fn(&LaneCounters) -> u64);

impl Traffic {
    fn read(&self) -> Result<Vec<Counted>, fmt::Error> {
        let told = |error| {
            tracing::error!(%error, "cannot read the kernel's counts");
            fmt::Error
        };
        let _slots_stay_whose_they_are = self.owners.reader();
        let published = self.owners.now();
        let mut all: Vec<Counted> = Vec::new();
        for Owner { slot, name, uid: _, by_namespace } in &published.owners {
            let lanes = self.maps.counters(*slot).map_err(told)?.lanes;
            match all.last_mut() {
                // The list is sorted by names.
                Some(last) if last.name == *name => {
                    last.by_namespace |= by_namespace;
                    add(&mut last.live, &lanes);
                    add(&mut last.all, &lanes);
                }
                _ => all.push(Counted {
                    name: name.clone(),
                    by_namespace: *by_namespace,
                    live: lanes,
                    all: lanes,
                }),
            }
        }
        for (name, retired) in &published.retired {
            if let Some(counted) = all.iter_mut().find(|counted| counted.name == *name) {
                add(&mut counted.all, &retired.lanes);
            }
        }
        Ok(all)
    }

    /// Whether a reason can occur on a lane at all, so that its count is shown while it is zero.
    fn sent_is_shown(&self, counted: &Counted, lane: Lane, why: RstSent) -> bool {
        match why {
            RstSent::Active | RstSent::Reply => true,
            RstSent::NoSocket => {
                let dialled = matches!(lane, Lane::Data | Lane::Health | Lane::Admin | Lane::Loopback);
                self.sees_no_socket && counted.by_namespace && dialled
            }
            RstSent::TimeWait => {
                let possible = matches!(lane, Lane::Unknown | Lane::Loopback);
                self.sees_no_socket && counted.by_namespace && possible
            }
        }
    }
}

fn add(sum: &mut [LaneCounters; Lane::COUNT], part: &[LaneCounters; Lane::COUNT]) {
    sum.iter_mut().zip(part).for_each(|(sum, part)| sum.add(part));
}

pub(super) fn counter(
    family: &mut MetricEncoder<'_>,
    labels: &impl EncodeLabelSet,
    value: u64,
) -> fmt::Result {
    ConstCounter::new(value).encode(family.encode_family(labels)?)
}

impl Collector for Traffic {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.read()?;
        let counters: [LaneMetric; 3] = [
            (families::OPENED, |c| c.opened),
            (families::ADOPTED, |c| c.adopted),
            (families::CLOSED, |c| c.closed),
        ];
        for (family, value) in counters {
            let mut family = family.begin(&mut encoder)?;
            for (_, labels, lane) in all.iter().flat_map(|counted| counted.lanes(&counted.all)) {
                counter(&mut family, &labels, value(lane))?;
            }
        }
        let gauges: [LaneMetric; 2] = [
            (families::ACTIVE, |c| (c.opened + c.adopted).saturating_sub(c.left)),
            (families::CLOSING, |c| c.left.saturating_sub(c.closed)),
        ];
        for (family, value) in gauges {
            let mut family = family.begin(&mut encoder)?;
            for (_, labels, lane) in all.iter().flat_map(|counted| counted.lanes(&counted.live)) {
                let value = i64::try_from(value(lane)).unwrap_or(i64::MAX);
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        self.encode_census(&mut encoder)?;
        self.encode_resets(&all, &mut encoder)?;
        let counted = self.joins.lock().unwrap_or_else(PoisonError::into_inner).counted().clone();
        encode_cuts(&counted, &mut encoder)
    }
}

impl Traffic {
    fn encode_census(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let census = self.owners.now().census;
        let mut family = families::PODS.begin(encoder)?;
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

    fn encode_resets(&self, all: &[Counted], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = families::RST.begin(encoder)?;
        for counted in all {
            for (lane, labels, counters) in counted.lanes(&counted.all) {
                for (why, count) in RstSent::ALL.into_iter().zip(counters.rst_sent) {
                    if count > 0 || self.sent_is_shown(counted, lane, why) {
                        let labels = (labels, [("direction", "sent"), ("reason", words::sent_reason(why))]);
                        counter(&mut family, &labels, count)?;
                    }
                }
                for (how, count) in RstReceived::ALL.into_iter().zip(counters.rst_received) {
                    let dials = matches!(lane, Lane::Outbound | Lane::Loopback);
                    if count > 0 || how == RstReceived::Reset || dials {
                        let labels =
                            (labels, [("direction", "received"), ("reason", words::received_reason(how))]);
                        counter(&mut family, &labels, count)?;
                    }
                }
            }
        }
        Ok(())
    }
}
