//! Clients that ask for something long, and what each of them saw of its answer.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, Result, anyhow};

use super::topology::FRONTEND;
use crate::{
    sandbox::Netns,
    stage::{
        client::{self, Exchange, Seen},
        clock, interrupt,
    },
};

/// A request that is under way.
#[derive(Debug)]
pub(super) struct Asked {
    thread: JoinHandle<Answer>,
}

/// How one ended.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) path: String,
    pub(super) begun: SystemTime,
    pub(super) took: Duration,
    pub(super) seen: Seen,
}

impl Asked {
    /// Sends a request from the client's namespace, on a connection of its own; each silence of the answer may last `limit`.
    pub(super) fn begin(netns: &Arc<Netns>, path: &str, limit: Duration) -> Result<Self> {
        let (begun, started) = (SystemTime::now(), Instant::now());
        let exchange = Exchange::begin(client::connect(netns, FRONTEND)?, "GET", path, limit)?;
        let path = path.to_owned();
        let thread = thread::spawn(move || {
            let seen = exchange.seen();
            Answer { path, begun, took: started.elapsed(), seen }
        });
        Ok(Self { thread })
    }

    /// Waits for its end.
    pub(super) fn answer(self, limit: Duration) -> Result<Answer> {
        interrupt::wait_for("a client's answer", limit, || Ok(self.thread.is_finished().then_some(())))
            .context("the client got neither an answer nor an end of its connection")?;
        self.thread.join().map_err(|_panic| anyhow!("a client's thread panicked"))
    }
}

impl Answer {
    /// Whether the client got all that it asked for.
    pub(super) fn good(&self) -> bool {
        self.seen.whole && self.seen.status == Some(200)
    }

    /// A line of `curl.out`.
    pub(super) fn line(&self) -> String {
        let Seen { status, whole, lines, error } = &self.seen;
        format!(
            "{} GET {} http_code={} time_total={:.6} whole={whole} lines={lines}{}\n",
            clock::utc(self.begun),
            self.path,
            status.map_or_else(|| "000".to_owned(), |status| status.to_string()),
            self.took.as_secs_f64(),
            error.as_ref().map(|error| format!(" error={error:?}")).unwrap_or_default(),
        )
    }
}
