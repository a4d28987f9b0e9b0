//! The task that asks one pod's hc again and again.

use std::{sync::Arc, time::Duration};

use hyper::StatusCode;
use tokio::{sync::mpsc, time::Instant};

use super::{
    answers::{AnswerError, StateAnswer, of_codes},
    names::Names,
    observation::{HcObservation, Observation, Source, What},
    states::States,
};
use crate::{
    clock::Moment,
    dial::{Answer, CallError, Client, Dialler, Limits, Target},
    poll::{Ask, Call, Intervals, Meter, Poller, Remote, Ticks},
};

/// How long hc is asked for its codes before `/state` is tried again: it may have been replaced.
const STATE_AGAIN: Duration = Duration::from_secs(60);

/// How an hc is read.
#[derive(Clone, Debug)]
pub struct Settings {
    pub port: u16,
    pub intervals: Intervals,
    /// Of each call.
    pub limits: Limits,
    pub names: Names,
    /// Shared by the readers of all pods.
    pub meter: Meter,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            port: 18_180,
            intervals: Intervals::default(),
            limits: Limits { time: Duration::from_secs(1), body: 64 << 10 },
            names: Names::default(),
            meter: Meter::default(),
        }
    }
}

/// Why hc told nothing.
#[derive(Debug, thiserror::Error)]
enum Silence {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("port {port} of pod {pod} answers {lb} on /health_check.html: is this hc's port?")]
    NoHc { pod: Arc<str>, port: u16, lb: u16 },
    #[error("port {port} of pod {pod}: {cause}")]
    Answer { pod: Arc<str>, port: u16, cause: AnswerError },
}

/// A pod's hc, asked until this is dropped.
#[derive(Debug)]
pub struct Reader(Poller);

impl Reader {
    /// Starts to ask, at the slow pace. Observations that find `observations` full are dropped and counted.
    #[must_use]
    pub fn start(
        uid: Arc<str>,
        target: Target,
        dialler: Dialler,
        settings: Settings,
        observations: mpsc::Sender<HcObservation>,
    ) -> Self {
        let (intervals, meter) = (settings.intervals, settings.meter.clone());
        let asker = Asker {
            uid,
            pod: Arc::clone(&target.pod),
            client: Client::new(dialler, target, settings.port),
            settings,
            no_state_since: None,
        };
        Self(Poller::start(asker, intervals, meter, observations))
    }

    /// To tell it to hurry.
    #[must_use]
    pub fn remote(&self) -> &Remote {
        self.0.remote()
    }

    /// Observations dropped since the start, by all readers that share the meter.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.meter().dropped()
    }
}

impl Ask for Asker {
    type Told = HcObservation;

    async fn ask(&mut self, begun: Instant, _ticks: &Ticks) -> (HcObservation, Call) {
        let told = self.state(begun).await;
        let call = match &told {
            Ok(_) => Call::Usual,
            Err(Silence::Call(error)) if error.is_refused() => Call::Refused,
            Err(_) => Call::Failed,
        };
        let observation = told.unwrap_or_else(|silence| silent(&silence));
        (HcObservation { uid: Arc::clone(&self.uid), observation }, call)
    }
}

fn silent(silence: &Silence) -> Observation {
    let seen = Moment::now();
    let reason = Some(silence.to_string().into());
    let (at_us, what) = (seen.utc_us, What::Silent);
    Observation { source: Source::State, what, at_us, seen, took_ns: 0, reason, active: None }
}

/// Who asks.
#[derive(Debug)]
struct Asker {
    uid: Arc<str>,
    pod: Arc<str>,
    client: Client,
    settings: Settings,
    /// Since when hc is known to have no `/state`.
    no_state_since: Option<Instant>,
}

impl Asker {
    async fn state(&mut self, now: Instant) -> Result<Observation, Silence> {
        if self.no_state_since.is_some_and(|since| now.duration_since(since) < STATE_AGAIN) {
            return self.codes().await;
        }
        self.no_state_since = None;
        let answer = self.get("/state").await?;
        if answer.status != StatusCode::OK {
            self.no_state_since = Some(now);
            return self.codes().await;
        }
        match StateAnswer::parse(&answer.body, &self.settings.names) {
            Ok(told) => Ok(of_state(told, &answer)),
            // Old ones answer every path with a page.
            Err(AnswerError::Json(_)) => {
                self.no_state_since = Some(now);
                self.codes().await
            }
            Err(cause) => {
                Err(Silence::Answer { pod: Arc::clone(&self.pod), port: self.settings.port, cause })
            }
        }
    }

    async fn codes(&mut self) -> Result<Observation, Silence> {
        let lb = self.get("/health_check.html").await?;
        // Without the second answer the first still says what the LB is told.
        let readiness = self.get("/health").await.ok();
        let states = of_codes(lb.status.as_u16(), readiness.as_ref().map(|answer| answer.status.as_u16()));
        if states == States::ANY {
            let (pod, port) = (Arc::clone(&self.pod), self.settings.port);
            return Err(Silence::NoHc { pod, port, lb: lb.status.as_u16() });
        }
        let ended = readiness.as_ref().map_or(lb.ended, |answer| answer.ended);
        let what = What::Holds { states, asked_us: lb.begun.utc_us };
        Ok(Observation {
            source: Source::Codes,
            what,
            at_us: ended.utc_us,
            seen: ended,
            took_ns: ended.monotonic_ns.saturating_sub(lb.begun.monotonic_ns),
            reason: None,
            active: None,
        })
    }

    async fn get(&mut self, path: &str) -> Result<Answer, CallError> {
        self.client.get(path, self.settings.limits).await
    }
}

fn of_state(told: StateAnswer, answer: &Answer) -> Observation {
    let seen = answer.ended;
    // An hc whose clock is ahead of ours has not told since when.
    let (what, at_us) = match told.since_us.filter(|since| *since <= seen.utc_us) {
        Some(since) => (What::Since(told.state), since),
        None => {
            let states = States::only(told.state);
            (What::Holds { states, asked_us: answer.begun.utc_us }, seen.utc_us)
        }
    };
    let took_ns = seen.monotonic_ns.saturating_sub(answer.begun.monotonic_ns);
    let StateAnswer { reason, active, .. } = told;
    Observation { source: Source::State, what, at_us, seen, took_ns, reason, active }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
