//! Drains of the watched pods: whatever is learned of a pod is given to them, and what is over is told.

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use gt_common::owner::Slot;
use tracing::{debug, info};

use super::{kernel::Kernel, lb::News, pod::PodState};
use crate::{
    clock::{Moment, utc_us},
    correlate::{
        Joined,
        judged::{Judged, LateReset},
    },
    drain::{
        fact::{self, Timed, stamp},
        follow::{Drains, Rules, View},
        intervals::Intervals,
        ledger::Ledger,
        news::Word,
        record::Record,
        writer::Writer,
    },
    envoy::reader::Report,
    hc::observation::{HcObservation, Source, What},
    lb::reader as lb,
};

/// The observer's end of drains.
#[derive(Debug)]
pub(super) struct Watch {
    drains: Drains,
    slots: BTreeMap<Arc<str>, Vec<Slot>>,
    ledger: Arc<Ledger>,
    writer: Option<Writer>,
    /// Drains that were over since somebody asked last.
    over: Vec<Arc<Record>>,
    /// When the drain of each pod began, as the ledger was told last.
    begun: Vec<Option<i64>>,
}

impl Watch {
    pub(super) fn new(
        patience: Duration,
        lb: &lb::Settings,
        ledger: Arc<Ledger>,
        writer: Option<Writer>,
    ) -> Self {
        let patience = i64::try_from(patience.as_micros()).unwrap_or(i64::MAX);
        let lbs = lb.sources.iter().map(|source| Arc::clone(&source.name)).collect();
        let rules = Rules { patience, lbs, prediction: lb.prediction };
        Self {
            drains: Drains::with(rules),
            slots: BTreeMap::new(),
            ledger,
            writer,
            over: Vec::new(),
            begun: Vec::new(),
        }
    }

    /// Brings drains in step with the watched pods.
    pub(super) fn follow(&mut self, joined: &[Joined], pods: &BTreeMap<Arc<str>, PodState>, now: Moment) {
        let views: Vec<_> =
            joined.iter().filter_map(|joined| Some(view(joined, pods.get(&joined.uid)?))).collect();
        let slots = |joined: &Joined| joined.slots.iter().map(|(slot, _)| *slot).collect();
        self.slots = joined.iter().map(|joined| (Arc::clone(&joined.uid), slots(joined))).collect();
        let over = self.drains.pods(&views, now);
        self.over(over);
        self.tell_begun();
    }

    /// hc said something, which its pod has taken in.
    pub(super) fn hc(&mut self, pod: &PodState, said: &HcObservation, now: Moment) {
        let HcObservation { uid, observation } = said;
        let answered = observation.source != Source::Log && observation.what != What::Silent;
        self.drains.hc(uid, pod.changes(), answered, now);
    }

    /// Somebody looked at a proxy.
    pub(super) fn envoy(&mut self, report: &Report) {
        if let Ok(sample) = &report.outcome {
            let gauges = sample.gauges.values;
            let active = (gauges.downstream_rq_active, gauges.upstream_rq_active);
            self.drains.envoy(&report.uid, active, sample.drains(), sample.gauges.ended);
            self.drains.counts(&report.uid, sample.epoch, sample.gauges.ended);
        }
    }

    /// An LB said something, or answered at least.
    pub(super) fn lb(&mut self, news: News) {
        let News { uid, said, answer, at } = news;
        if let Some((lb, lists)) = answer {
            self.drains.lb_answers(&uid, &lb, lists, at);
        }
        self.drains.lb(&uid, said);
    }

    /// Which pods drain, and since when, UTC microseconds.
    pub(super) fn draining(&self) -> Vec<(Arc<str>, i64)> {
        self.drains.draining()
    }

    pub(super) fn judged(&mut self, judged: &Judged, now: Moment) {
        self.drains.judged(judged, now);
    }

    /// An RST of a connection that had been judged.
    pub(super) fn late_reset(&mut self, late: &LateReset, now: Moment) {
        self.drains.late_reset(late, now);
    }

    /// Something of a source was lost.
    pub(super) fn lost(&mut self, source: fact::Source, why: &str, now: Moment) {
        self.drains.lost(source, why, now);
    }

    /// gt itself did not run for so long, microseconds.
    pub(super) fn stalled(&mut self, length_us: i64, now: Moment) {
        self.drains.stalled(length_us, now);
    }

    /// UTC was set by so much, microseconds.
    pub(super) fn clock_was_set(&mut self, by_us: i64, now: Moment) {
        let cut_short = self.drains.clock_was_set(by_us, now);
        self.over(cut_short);
        self.ledger.watched(self.drains.begun());
    }

    /// The daemon stops: drains that go on are recorded as far as they are known, and the writer gets `patience` to write
    /// them. Whether it did.
    pub(super) fn stop(&mut self, now: Moment, patience: Duration) -> bool {
        let unfinished = self.drains.stop(now);
        self.over(unfinished);
        self.writer.as_ref().is_none_or(|writer| writer.flush(patience))
    }

    /// Counts connections of users of pods that drain. While this runs, slots must stay with those that are followed.
    pub(super) fn count(&mut self, kernel: &dyn Kernel, now: Moment) {
        for (uid, _) in self.drains.draining() {
            let Some(slots) = self.slots.get(&uid).filter(|slots| !slots.is_empty()) else { continue };
            match kernel.users(slots) {
                Ok((active, closing)) => self.drains.connections(&uid, active, closing, now),
                // A scrape meets the same error, and tells it.
                Err(error) => debug!(%error, "connections of a pod that drains are not counted now"),
            }
        }
    }

    /// Connections of users of one pod. While this runs, slots must stay with those that are followed.
    pub(super) fn users(&self, uid: &str, kernel: &dyn Kernel) -> Option<(u64, u64)> {
        let slots = self.slots.get(uid).filter(|slots| !slots.is_empty())?;
        // A scrape meets the same error, and tells it.
        kernel.users(slots).ok()
    }

    /// The drains that were over since the last call.
    pub(super) fn take_over(&mut self) -> Vec<Arc<Record>> {
        mem::take(&mut self.over)
    }

    /// The drains themselves.
    pub(super) fn drains(&self) -> &Drains {
        &self.drains
    }

    /// Whether anybody wants to hear of facts as they come.
    pub(super) fn listen(&mut self, listens: bool) {
        self.drains.listen(listens);
    }

    /// What was noted since the last call.
    pub(super) fn news(&mut self) -> Vec<(Arc<str>, Word, Timed)> {
        self.drains.news()
    }

    /// Lets time pass.
    pub(super) fn tick(&mut self, now: Moment) {
        let over = self.drains.tick(now);
        // Of hundreds of pods seldom one has news, and this is ten times a second.
        let is_news =
            !over.is_empty() || !self.drains.begun().map(|(_, begun)| begun).eq(self.begun.iter().copied());
        self.over(over);
        if is_news {
            self.tell_begun();
        }
    }

    fn tell_begun(&mut self) {
        self.begun = self.drains.begun().map(|(_, begun)| begun).collect();
        self.ledger.watched(self.drains.begun());
    }

    fn over(&mut self, records: Vec<Record>) {
        for record in records.into_iter().map(Arc::new) {
            tell(&record);
            self.ledger.over(&record);
            if let Some(writer) = &self.writer {
                writer.push(&record);
            }
            self.over.push(record);
        }
    }
}

fn view(joined: &Joined, state: &PodState) -> View {
    let pod = &state.followed.pod;
    let grace = |grace: Duration| i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
    View {
        uid: Arc::clone(&joined.uid),
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        deletion: pod.deletion.map(|deletion| (utc_us(deletion.requested()), grace(deletion.grace))),
        gone: state.followed.gone,
        attributed: !joined.slots.is_empty(),
        has_hc: joined.has_hc,
        has_envoy: joined.has_envoy,
    }
}

/// One line for each drain.
fn tell(record: &Record) {
    let (pod, namespace, uid) = (&record.pod, &record.namespace, &record.uid);
    let verdict = record.outcome().word();
    let began = record.begun().map(stamp);
    let reasons = record.verdict.reasons.join("; ");
    let Intervals { drain_to_active_zero, active_zero_to_lb_down, lb_down_to_first_rst } = record.intervals;
    info!(
        pod,
        namespace,
        uid,
        verdict,
        began,
        drain_to_active_zero,
        active_zero_to_lb_down,
        lb_down_to_first_rst,
        reasons,
        "drain over"
    );
}
