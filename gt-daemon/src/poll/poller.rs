//! The task that asks one source of one pod, for as long as somebody wants to know.

use tokio::{sync::mpsc, task::JoinHandle, time::Instant};

use super::{
    meter::Meter,
    remote::{Remote, Ticks, ticks},
    schedule::{Call, Intervals},
};
use crate::clock::Moment;

/// Who asks a source.
pub trait Ask: Send + 'static {
    /// What is told of each question, answered or not.
    type Told: Send + 'static;

    /// Asks once, within a limit of its own; `begun` is now, and `ticks` says what the question is for.
    fn ask(&mut self, begun: Instant, ticks: &Ticks) -> impl Future<Output = (Self::Told, Call)> + Send;
}

/// A source that is asked until this is dropped.
#[derive(Debug)]
pub struct Poller {
    task: JoinHandle<()>,
    remote: Remote,
    meter: Meter,
}

impl Poller {
    /// Starts to ask, at the slow pace. What finds `told` full is dropped and counted.
    pub fn start<A: Ask>(asker: A, intervals: Intervals, meter: Meter, told: mpsc::Sender<A::Told>) -> Self {
        let (remote, ticks) = ticks(intervals);
        let task = tokio::spawn(run(asker, ticks, meter.clone(), told));
        Self { task, remote, meter }
    }

    /// To tell it to hurry.
    #[must_use]
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// What its questions took, with those of all others that have this meter.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run<A: Ask>(mut asker: A, mut ticks: Ticks, meter: Meter, told: mpsc::Sender<A::Told>) {
    while ticks.next().await {
        let (begun, began) = (Instant::now(), Moment::now());
        let (answer, call) = asker.ask(begun, &ticks).await;
        ticks.done(begun, call);
        meter.took(Moment::now().monotonic_ns.saturating_sub(began.monotonic_ns));
        if let Err(mpsc::error::TrySendError::Full(_)) = told.try_send(answer) {
            meter.dropped_one();
        }
    }
}
