//! One pod: its readers, and what they have said.

use std::sync::Arc;

use gt_common::connection::HcState;
use tracing::{debug, info, warn};

use super::{
    board::{EnvoyShown, HcShown, Shown},
    current::{self, Signs},
    faults::Faults,
    readers::{Makings, Readers},
    wanted::{self, Wanted},
};
use crate::{
    clock::Moment,
    envoy::{reader::Report, sample::Sample},
    hc::{
        merge::Change,
        observation::{HcObservation, Source, What},
        record::Record,
        states::States,
    },
    pods::owners::Followed,
};

/// By then the follower of logs has looked at a new one.
const FIRST_LOOK_NS: u64 = 1_000_000_000;

/// A pod in which something is read, or could be.
#[derive(Debug)]
pub(super) struct PodState {
    pub(super) followed: Arc<Followed>,
    wanted: Wanted,
    readers: Readers,
    record: Record,
    /// What the record says of now, as of the last observation.
    told: States,
    hc_up: Option<bool>,
    /// Monotonic nanoseconds since when hc is not asked or does not answer.
    silent_since: Option<u64>,
    log_is_read: bool,
    /// Monotonic nanoseconds since when its log is followed.
    log_since: Option<u64>,
    envoy_up: Option<bool>,
    /// The last look, if it succeeded.
    sample: Option<Sample>,
    way_faults: Faults,
    hc_faults: Faults,
    log_faults: Faults,
    envoy_faults: Faults,
    /// Whether each was ever read.
    had_hc: bool,
    had_envoy: bool,
    /// The state the kernel programs were told.
    pub(super) kernel_knows: HcState,
}

impl PodState {
    pub(super) fn new(followed: &Arc<Followed>) -> Self {
        Self {
            followed: Arc::clone(followed),
            wanted: Wanted::default(),
            readers: Readers::default(),
            record: Record::default(),
            told: States::ANY,
            hc_up: None,
            silent_since: None,
            log_is_read: false,
            log_since: None,
            envoy_up: None,
            sample: None,
            way_faults: Faults::default(),
            hc_faults: Faults::default(),
            log_faults: Faults::default(),
            envoy_faults: Faults::default(),
            had_hc: false,
            had_envoy: false,
            kernel_knows: HcState::Unknown,
        }
    }

    /// Brings readers in step with the pod.
    pub(super) fn follow(
        &mut self,
        followed: &Arc<Followed>,
        signs: &wanted::Signs,
        makings: &Makings,
        now: Moment,
    ) {
        self.followed = Arc::clone(followed);
        self.wanted = Wanted::of(&followed.pod, signs);
        self.readers.follow(followed, &self.wanted, makings);
        self.had_hc |= self.readers.asks_hc() || self.readers.reads_log();
        self.had_envoy |= self.readers.asks_envoy();
        self.log_is_read &= self.readers.reads_log();
        self.log_since = self.readers.reads_log().then(|| self.log_since.unwrap_or(now.monotonic_ns));
        if self.wanted.hc.is_none() {
            (self.record, self.told) = (Record::default(), States::ANY);
        }
        if !self.readers.asks_hc() {
            self.hc_up = None;
            self.silent_since.get_or_insert(now.monotonic_ns);
        }
        if !self.readers.asks_envoy() {
            (self.envoy_up, self.sample) = (None, None);
        }
        self.hurry(now);
    }

    /// Takes in what hc said, by any mouth.
    pub(super) fn hc_said(&mut self, said: &HcObservation, now: Moment) {
        let observation = &said.observation;
        if observation.source != Source::Log && self.readers.asks_hc() {
            let is_silent = observation.what == What::Silent;
            self.hc_up = Some(!is_silent);
            if is_silent {
                self.silent_since.get_or_insert(now.monotonic_ns);
                let cause = observation.reason.as_deref().unwrap_or("it gave no reason");
                if self.hc_faults.failed(cause, now.monotonic_ns) {
                    self.tell("hc", cause);
                }
            } else {
                self.silent_since = None;
                if self.hc_faults.answered() {
                    self.tell_recovery("hc");
                }
            }
        }
        if self.wanted.hc.is_some() {
            self.record.push(observation.clone());
            self.told = self.record.states_at(now.utc_us);
        }
        self.hurry(now);
    }

    /// UTC was set: what hc said before is by another clock.
    pub(super) fn clock_was_set(&mut self) {
        (self.record, self.told) = (Record::default(), States::ANY);
    }

    /// Tells of a pod that cannot be asked. Not at once: a process on its way into the pod's network is in the host's.
    pub(super) fn tell_obstacle(&mut self, now: Moment) {
        match self.readers.obstacle().filter(|_| self.wanted.is_any()) {
            Some(cause) if self.way_faults.failed(cause, now.monotonic_ns) => {
                self.tell("hc and Envoy", cause);
            }
            Some(_) => {}
            None => self.way_faults = Faults::default(),
        }
    }

    /// Takes in how its log fares: why it cannot be read, if so.
    pub(super) fn log_fares(&mut self, fault: Option<&str>, now: Moment) {
        // One that nobody has looked at yet has no fault, and is not read either.
        let is_new = |since| now.monotonic_ns.saturating_sub(since) < FIRST_LOOK_NS;
        if self.log_since.is_none_or(is_new) {
            return;
        }
        self.log_is_read = fault.is_none();
        match fault {
            Some(cause) if self.log_faults.failed(cause, now.monotonic_ns) => self.tell("hc's log", cause),
            Some(_) => {}
            None if self.log_faults.answered() => self.tell_recovery("hc's log"),
            None => {}
        }
    }

    /// Takes in a look at Envoy.
    pub(super) fn envoy_said(&mut self, report: &Report, now: Moment) {
        if !self.readers.asks_envoy() {
            return;
        }
        self.envoy_up = Some(report.outcome.is_ok());
        self.sample = report.outcome.as_ref().ok().copied();
        match &report.outcome {
            Ok(_) if self.envoy_faults.answered() => self.tell_recovery("Envoy"),
            Ok(_) => {}
            Err(error) => {
                let cause = error.to_string();
                if self.envoy_faults.failed(&cause, now.monotonic_ns) {
                    self.tell("Envoy", &cause);
                }
            }
        }
        self.hurry(now);
    }

    /// All that is known of its hc by now.
    pub(super) fn changes(&self) -> Vec<Change> {
        self.record.changes()
    }

    /// Something happened that hc and Envoy can explain.
    pub(super) fn alarm(&self) {
        self.readers.alarm();
    }

    /// hc has changed: what Envoy counted before is told apart from what it counts after.
    pub(super) fn alarm_envoy(&self) {
        self.readers.alarm_envoy();
    }

    /// Sets the pace of its readers.
    fn hurry(&mut self, now: Moment) {
        let signs = Signs {
            hc: self.states(now),
            envoy: self.sample.as_ref().and_then(Sample::drains),
            ends: self.ends(),
        };
        self.readers.pace(current::pace(signs));
    }

    /// Whether its processes may end at any time.
    pub(super) fn ends(&self) -> bool {
        self.followed.gone || self.followed.pod.deletion.is_some()
    }

    fn states(&self, now: Moment) -> States {
        let silent = self.silent_since.map(|since| now.monotonic_ns.saturating_sub(since));
        current::states(self.told, silent, self.log_is_read)
    }

    /// The state of its hc, when it is one; else unknown.
    pub(super) fn hc_state(&self, now: Moment) -> HcState {
        self.states(now).state()
    }

    /// Whether its hc answers 200 now; `None` where that is not known.
    pub(super) fn shows_up(&self, now: Moment) -> Option<bool> {
        self.states(now).shown_up()
    }

    /// Whether its hc is, or was, read.
    pub(super) fn has_hc(&self) -> bool {
        self.wanted.hc.is_some() && self.had_hc
    }

    /// Whether its Envoy is, or was, read.
    pub(super) fn has_envoy(&self) -> bool {
        self.wanted.envoy.is_some() && self.had_envoy
    }

    /// What the views see; `None` where nothing is read.
    pub(super) fn shown(&self, now: Moment) -> Option<Shown> {
        let gauges = self.sample.map(|sample| sample.gauges.values).unwrap_or_default();
        let hc = || HcShown { state: self.hc_state(now), up: self.hc_up };
        let envoy = || EnvoyShown {
            up: self.envoy_up,
            downstream_rq_active: gauges.downstream_rq_active,
            upstream_rq_active: gauges.upstream_rq_active,
        };
        self.wanted.is_any().then(|| Shown {
            namespace: self.followed.pod.namespace.clone(),
            pod: self.followed.pod.name.clone(),
            gone: self.followed.gone,
            hc: self.wanted.hc.is_some().then(hc),
            envoy: self.wanted.envoy.is_some().then(envoy),
        })
    }

    /// A pod that ends is expected to fall silent.
    fn tell(&self, source: &str, cause: &str) {
        let (pod, namespace) = (&self.followed.pod.name, &self.followed.pod.namespace);
        if self.ends() {
            debug!(pod, namespace, source, "not read, the pod is ending: {cause}");
        } else {
            warn!(pod, namespace, source, "not read: {cause}");
        }
    }

    fn tell_recovery(&self, source: &str) {
        info!(pod = self.followed.pod.name, namespace = self.followed.pod.namespace, source, "read again");
    }
}
