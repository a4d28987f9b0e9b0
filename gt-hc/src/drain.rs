//! The course of a drain: looks at Envoy, and moves the state on when a condition of the runbook is met.
//!
//! It runs in the server, not in the preStop command: the kubelet gives up on a preStop whose exec session
//! breaks, and a drain that went with it would leave the LB at 200 until SIGKILL.

use std::{future::Future, time::Duration};

use tokio::{
    select,
    time::{Instant, sleep_until},
};

use crate::{
    envoy::{Active, Admin, ReadError},
    fsm::{Cause, State},
    settings::Settings,
    sidecar::{Sidecar, View},
};

/// Who tells how many requests are in flight.
pub trait Count {
    /// Asks once; an error is not a zero.
    fn count(&self) -> impl Future<Output = Result<Active, ReadError>> + Send;
}

impl Count for Admin {
    fn count(&self) -> impl Future<Output = Result<Active, ReadError>> + Send {
        self.read()
    }
}

/// The times of a drain.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub drain_timeout: Duration,
    pub lb_buffer: Duration,
    pub poll_interval: Duration,
}

impl From<&Settings> for Times {
    fn from(settings: &Settings) -> Self {
        Self {
            drain_timeout: settings.drain_timeout,
            lb_buffer: settings.lb_buffer,
            poll_interval: settings.poll_interval,
        }
    }
}

/// What is to happen at the end of the time a state has.
#[derive(Clone, Copy)]
enum Due {
    Fault,
    Close,
    Settle,
}

/// Drives every drain, one after the other; never ends.
pub async fn drive(sidecar: Sidecar, envoy: impl Count, times: Times) {
    let mut changes = sidecar.watch();
    let mut next_poll = Instant::now();
    loop {
        let view = changes.borrow_and_update().clone();
        if view.state() == State::Open {
            if changes.changed().await.is_err() {
                return;
            }
            // A drain begins with a look at Envoy: a gateway without work is not kept waiting.
            next_poll = Instant::now();
            continue;
        }
        let revision = view.machine.revision();
        let due = due(&view, times);
        select! {
            // A zero that is there goes before a timeout that is due, too.
            biased;
            result = poll(next_poll, &envoy) => {
                let (began, result) = result;
                next_poll = next(began, times.poll_interval);
                sidecar.record_in(revision, &result);
                if view.state() == State::Draining && result.is_ok_and(|active| active.total() == 0) {
                    sidecar.apply_in(revision, Cause::ActiveZero);
                }
            }
            what = at(due) => match what {
                Due::Fault => {
                    let known = sidecar.view().reading.total().is_some();
                    sidecar.apply_in(
                        revision,
                        if known { Cause::DrainTimeout } else { Cause::DrainTimeoutActiveUnknown },
                    );
                }
                Due::Close => sidecar.apply_in(revision, Cause::LbBufferOver),
                Due::Settle => sidecar.settle_in(revision),
            },
            _changed = changes.changed() => {}
        }
    }
}

/// When the present state's time ends, and what then.
fn due(view: &View, times: Times) -> Option<(Instant, Due)> {
    match view.state() {
        State::Draining => Some((view.entered + times.drain_timeout, Due::Fault)),
        State::Closing => Some((view.entered + times.lb_buffer, Due::Close)),
        State::Fault if view.settled.is_none() => Some((view.entered + times.lb_buffer, Due::Settle)),
        State::Open | State::Closed | State::Fault => None,
    }
}

async fn at(due: Option<(Instant, Due)>) -> Due {
    match due {
        Some((instant, what)) => {
            sleep_until(instant).await;
            what
        }
        None => std::future::pending().await,
    }
}

/// Asks Envoy at `when`; gives the instant the question began, too.
async fn poll(when: Instant, envoy: &impl Count) -> (Instant, Result<Active, ReadError>) {
    sleep_until(when).await;
    let began = Instant::now();
    (began, envoy.count().await)
}

/// An interval after the begin of the last question; if that took longer, after its end: an Envoy that is
/// slow is not asked all the time.
fn next(began: Instant, interval: Duration) -> Instant {
    let now = Instant::now();
    if now - began < interval { began + interval } else { now + interval }
}

#[cfg(test)]
#[path = "drain_tests.rs"]
mod tests;
