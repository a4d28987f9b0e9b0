//! The task that looks at one pod's Envoy again and again.

use std::{sync::Arc, time::Duration};

use hyper::StatusCode;
use tokio::{sync::mpsc, time::Instant};

use super::{
    form::{Form, Malformed},
    history::History,
    query::{Kinds, questions},
    sample::{Counters, Gauges, Read, Sample},
    scope::Ignored,
    session::{Session, Told},
    sums::Sums,
};
use crate::{
    clock::Moment,
    dial::{Answer, CallError, Cause, Client, DialError, Dialler, Limits, Target},
    poll::{Ask, Call, Intervals, Meter, Pace, Poller, Remote, Ticks},
};

/// Counters are asked for less often than gauges, unless there is an alarm: they are half of a look's cost, and tell
/// nothing that an alarm would not ask for, but for resets of HTTP/2 streams.
const COUNTERS_FAST: Duration = Duration::from_millis(950);
const COUNTERS_SLOW: Duration = Duration::from_millis(9_500);

/// How long another port than the first is asked before the first is tried again.
const FALLBACK: Duration = Duration::from_secs(60);

/// What a user has to set where Istio keeps stats out, which is its default.
pub const STATS_REMEDY: &str = "let Envoy keep them with the pod's annotation proxy.istio.io/config: proxyStatsMatcher, \
                                inclusionSuffixes [rq_active, cx_active, cx_total, rq_total, active_rq, rx_reset, \
                                tx_reset, drain_close, ClusterTrafficStats.initialized]";

/// A port of a pod that tells Envoy's stats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub port: u16,
    pub form: Form,
    /// Whether another process than Envoy answers, so that its connection says nothing about Envoy's life.
    pub proxied: bool,
}

/// How an Envoy is read.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Asked in this order: at once the next one where nothing listens on one, and at the next look where one does not
    /// tell.
    pub endpoints: Vec<Endpoint>,
    pub ignored: Ignored,
    pub intervals: Intervals,
    /// Of each call.
    pub limits: Limits,
    /// Shared by the readers of all pods.
    pub meter: Meter,
}

impl Default for Settings {
    /// Envoy's admin server, Envoy's own Prometheus port in Istio, the agent's.
    fn default() -> Self {
        let prometheus = |port, proxied| Endpoint { port, form: Form::Prometheus, proxied };
        Self {
            endpoints: vec![
                Endpoint { port: 15_000, form: Form::Text, proxied: false },
                prometheus(15_090, false),
                prometheus(15_020, true),
            ],
            ignored: Ignored::default(),
            intervals: Intervals::default(),
            limits: Limits { time: Duration::from_secs(2), body: 8 << 20 },
            meter: Meter::default(),
        }
    }
}

/// A look that told nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("port {port} of pod {pod} answered {status}; is this Envoy's port?")]
    Status { pod: Arc<str>, port: u16, status: StatusCode },
    #[error("port {port} of pod {pod}: {cause}")]
    Malformed { pod: Arc<str>, port: u16, cause: Malformed },
    #[error("port {port} of pod {pod} answers, but tells none of the stats gt reads; {STATS_REMEDY}")]
    Nothing { pod: Arc<str>, port: u16 },
}

/// What a reader reports.
#[derive(Debug)]
pub struct Report {
    /// The pod's UID.
    pub uid: Arc<str>,
    /// When the look ended.
    pub at: Moment,
    pub outcome: Result<Sample, ReadError>,
}

/// A pod's Envoy, read until this is dropped.
#[derive(Debug)]
pub struct Reader {
    poller: Poller,
    history: Arc<History>,
}

impl Reader {
    /// Starts to look, at the slow pace. Reports that find `reports` full are dropped and counted; the history has
    /// their samples all the same.
    #[must_use]
    pub fn start(
        uid: Arc<str>,
        target: Target,
        dialler: Dialler,
        settings: Settings,
        reports: mpsc::Sender<Report>,
    ) -> Self {
        let history = Arc::new(History::default());
        let (intervals, meter) = (settings.intervals, settings.meter.clone());
        let looker = Looker {
            uid,
            history: Arc::clone(&history),
            client: None,
            rotations: 0,
            index: 0,
            fallback_since: None,
            looks: 0,
            first_epoch: Moment::now().monotonic_ns,
            session: Session::new(settings.ignored.clone()),
            counters_at: None,
            dialler,
            target,
            settings,
        };
        Self { poller: Poller::start(looker, intervals, meter, reports), history }
    }

    /// To tell it to hurry.
    #[must_use]
    pub fn remote(&self) -> &Remote {
        self.poller.remote()
    }

    /// The samples of the last half minute, oldest first; at least the last one, however old.
    #[must_use]
    pub fn history(&self) -> Vec<Sample> {
        self.history.all()
    }

    /// The last sample.
    #[must_use]
    pub fn last(&self) -> Option<Sample> {
        self.history.last()
    }

    /// Reports dropped since the start, by all readers that share the meter.
    #[must_use]
    pub fn unreported(&self) -> u64 {
        self.poller.meter().dropped()
    }
}

impl Ask for Looker {
    type Told = Report;

    async fn ask(&mut self, begun: Instant, ticks: &Ticks) -> (Report, Call) {
        let learns = self.session.must_learn(begun);
        let outcome = self.look(counters_every(ticks, begun), begun).await;
        let call = match &outcome {
            Err(ReadError::Call(error)) if error.is_refused() => Call::Refused,
            Err(_) => Call::Failed,
            Ok(_) if learns => Call::Special,
            Ok(_) => Call::Usual,
        };
        (Report { uid: Arc::clone(&self.uid), at: Moment::now(), outcome }, call)
    }
}

/// How old counters may be before they are asked for again.
fn counters_every(ticks: &Ticks, now: Instant) -> Duration {
    match ticks.pace_at(now) {
        _ if ticks.is_alarmed() => Duration::ZERO,
        Pace::Fast => COUNTERS_FAST,
        Pace::Slow => COUNTERS_SLOW,
    }
}

/// Who looks.
#[derive(Debug)]
struct Looker {
    uid: Arc<str>,
    history: Arc<History>,
    dialler: Dialler,
    target: Target,
    settings: Settings,
    client: Option<Client>,
    /// Which endpoint is asked, how often that changed, and since when it is not the first.
    index: usize,
    rotations: u64,
    fallback_since: Option<Instant>,
    looks: u64,
    /// Those of a later reader of the same pod are greater.
    first_epoch: u64,
    session: Session,
    counters_at: Option<Instant>,
}

impl Looker {
    async fn look(&mut self, counters_every: Duration, now: Instant) -> Result<Sample, ReadError> {
        if self.fallback_since.is_some_and(|since| now.duration_since(since) >= FALLBACK) {
            self.turn_to(0);
        }
        let full = self.session.must_learn(now);
        let counters_due = self.counters_at.is_none_or(|at| now.duration_since(at) >= counters_every);
        let mut refusal = None;
        for _ in 0..self.settings.endpoints.len().max(1) {
            let is_proxied = self.settings.endpoints.get(self.index).is_some_and(|endpoint| endpoint.proxied);
            let outcome = self.exchange_all(full, full || counters_due, now).await;
            let Err(error) = outcome else { return outcome };
            if is_elsewhere(&error) {
                self.turn_to((self.index + 1) % self.settings.endpoints.len().max(1));
                self.fallback_since = (self.index > 0).then_some(now);
            }
            let is_absent = match &error {
                ReadError::Call(call) => call.is_refused(),
                // Istio's agent listens before Envoy does.
                ReadError::Nothing { .. } => is_proxied && refusal.is_some(),
                ReadError::Status { .. } | ReadError::Malformed { .. } => false,
            };
            if !is_absent {
                return Err(error);
            }
            refusal.get_or_insert(error);
        }
        // Each was asked: the next look begins with the first, which tells most.
        self.turn_to(0);
        Err(refusal.unwrap_or_else(|| self.nowhere()))
    }

    fn turn_to(&mut self, index: usize) {
        self.client = None;
        self.fallback_since = None;
        self.index = index;
        self.rotations += 1;
    }

    async fn exchange_all(&mut self, full: bool, counters: bool, now: Instant) -> Result<Sample, ReadError> {
        let Some(endpoint) = self.settings.endpoints.get(self.index).copied() else {
            return Err(self.nowhere());
        };
        self.looks += 1;
        let mut sample: Option<Sample> = None;
        let mut failed = None;
        for question in questions(endpoint.form, counters, !full) {
            let answered = self.exchange(endpoint, &question.path).await.and_then(|answer| {
                let connection = self.connection(endpoint, &answer);
                let told = Told { body: &answer.body, at_ns: answer.ended.monotonic_ns, connection };
                let sums =
                    self.session.take(&question, told).map_err(|cause| self.malformed(endpoint, cause))?;
                Ok((answer, sums))
            });
            match answered {
                Ok((answer, sums)) => add(&mut sample, question.kinds, &answer, &sums),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        if let Some(sample) = &mut sample {
            sample.epoch = self.first_epoch + self.session.epoch();
            if sample.counters.is_some() {
                self.counters_at = Some(now);
            }
            if is_empty(sample) {
                return Err(ReadError::Nothing { pod: Arc::clone(&self.target.pod), port: endpoint.port });
            }
            self.history.push(*sample);
            if failed.is_none() {
                self.session.finish(now, full, sample);
            }
        }
        match (failed, sample) {
            (None, Some(sample)) => Ok(sample),
            (Some(error), _) => Err(error),
            (None, None) => {
                Err(ReadError::Nothing { pod: Arc::clone(&self.target.pod), port: endpoint.port })
            }
        }
    }

    async fn exchange(&mut self, endpoint: Endpoint, path: &str) -> Result<Answer, ReadError> {
        let client = self
            .client
            .get_or_insert_with(|| Client::new(self.dialler.clone(), self.target.clone(), endpoint.port));
        let answer = client.get(path, self.settings.limits).await?;
        if answer.status != StatusCode::OK {
            let (pod, port, status) = (Arc::clone(&self.target.pod), endpoint.port, answer.status);
            return Err(ReadError::Status { pod, port, status });
        }
        Ok(answer)
    }

    /// A number that is the same only for answers of one process.
    fn connection(&self, endpoint: Endpoint, answer: &Answer) -> u64 {
        let number = if endpoint.proxied { self.looks } else { answer.connection };
        self.rotations << 32 | number & 0xffff_ffff
    }

    fn nowhere(&self) -> ReadError {
        let pod = Arc::clone(&self.target.pod);
        CallError::Dial(DialError { pod, port: 0, cause: Cause::Nowhere }).into()
    }

    fn malformed(&self, endpoint: Endpoint, cause: Malformed) -> ReadError {
        ReadError::Malformed { pod: Arc::clone(&self.target.pod), port: endpoint.port, cause }
    }
}

/// Puts an answer's sums into the sample of this look.
fn add(sample: &mut Option<Sample>, kinds: Kinds, answer: &Answer, sums: &Sums) {
    let (begun, ended) = (answer.begun, answer.ended);
    let counters = Read { begun, ended, values: Counters::from(sums) };
    match (kinds, sample) {
        (Kinds::Counters, Some(sample)) => sample.counters = Some(counters),
        // Gauges come first: a look at counters alone is none.
        (Kinds::Counters, None) => {}
        (Kinds::Gauges | Kinds::Both, sample) => {
            let gauges = Read { begun, ended, values: Gauges::from(sums) };
            *sample = Some(Sample { epoch: 0, gauges, counters: (kinds == Kinds::Both).then_some(counters) });
        }
    }
}

/// Whether it may not be Envoy that answered: Istio's agent does also while Envoy is gone.
fn is_empty(sample: &Sample) -> bool {
    sample.gauges.values == Gauges::default()
        && sample.counters.is_none_or(|counters| counters.values == Counters::default())
}

/// Whether the next endpoint may tell more than this one would next time.
fn is_elsewhere(error: &ReadError) -> bool {
    match error {
        ReadError::Call(CallError::Dial(DialError { cause, .. })) => {
            matches!(cause, Cause::Refused | Cause::OutsideFailed(_) | Cause::Io(_))
        }
        ReadError::Call(CallError::Call { .. }) => false,
        ReadError::Status { .. } | ReadError::Malformed { .. } | ReadError::Nothing { .. } => true,
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
