//! The task that asks one LB again and again, for as long as a pod here drains.

use std::{io::ErrorKind, sync::Arc};

use tokio::{sync::mpsc, time::Instant};

pub use super::call::Limits;
use super::{
    call::{self, Answer, Failure},
    pattern::Patterns,
    predict::Prediction,
    row::Row,
    source::Source,
    webhook::Note,
};
use crate::{
    clock::Moment,
    poll::{Ask, Call, Intervals, Meter, Pace, Poller, Ticks},
};

/// How LBs are read.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub sources: Vec<Source>,
    /// Which servers are a pod's.
    pub patterns: Patterns,
    /// What is expected where nobody tells.
    pub prediction: Option<Prediction>,
    pub intervals: Intervals,
    /// Of each call.
    pub limits: Limits,
}

/// One look at an LB, answered or not.
#[derive(Clone, Debug)]
pub struct Report {
    pub lb: Arc<str>,
    pub outcome: Result<Look, Arc<str>>,
}

/// What was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    pub rows: Vec<Row>,
    /// It was so at some time between these two.
    pub asked: Moment,
    pub answered: Moment,
}

/// What is heard of LBs: a look that gt made, or a word that was brought.
#[derive(Debug)]
pub enum Heard {
    Look(Report),
    Note(Note),
}

/// An LB that is asked until this is dropped.
#[derive(Debug)]
pub struct Reader(Poller);

impl Reader {
    /// Starts to ask, fast. What finds `heard` full is dropped and counted.
    #[must_use]
    pub fn start(source: Source, settings: &Settings, meter: Meter, heard: mpsc::Sender<Heard>) -> Self {
        let asker = Asker { source, limits: settings.limits };
        let poller = Poller::start(asker, settings.intervals, meter, heard);
        poller.remote().pace(Pace::Fast);
        Self(poller)
    }

    /// Something ended that the LB may have cut: ask as soon as may be.
    pub fn alarm(&self) {
        self.0.remote().alarm();
    }
}

#[derive(Debug)]
struct Asker {
    source: Source,
    limits: Limits,
}

impl Ask for Asker {
    type Told = Heard;

    async fn ask(&mut self, _begun: Instant, _ticks: &Ticks) -> (Heard, Call) {
        let outcome = call::ask(&self.source, self.limits).await;
        let call = match &outcome {
            Ok(_) => Call::Usual,
            Err(Failure::Connect(error)) if error.kind() == ErrorKind::ConnectionRefused => Call::Refused,
            Err(_) => Call::Failed,
        };
        let outcome = outcome
            .map(|Answer { rows, asked, answered }| Look { rows, asked, answered })
            .map_err(|failure| failure.to_string().into());
        (Heard::Look(Report { lb: Arc::clone(&self.source.name), outcome }), call)
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
