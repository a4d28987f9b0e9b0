//! The sidecar's one piece of shared state: the machine, what Envoy told last, and the log of both.
//!
//! Every change goes through here, under one lock, so that the order of the log is the order of the changes
//! and an answer is never of two states.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::{sync::watch, time::Instant};

use crate::{
    clock,
    envoy::{Active, ReadError},
    exit::Exit,
    fsm::{Cause, Machine, Outcome, Refusal, State},
    log::{Line, Log},
};

/// What is known about the requests in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Nobody asks Envoy in OPEN.
    NotAsked,
    /// Envoy was asked and did not tell; why.
    Unknown {
        why: String,
        at: SystemTime,
    },
    Known {
        active: Active,
        at: SystemTime,
    },
}

impl Reading {
    /// Requests in flight, if that is known.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        match self {
            Self::Known { active, .. } => Some(active.total()),
            Self::NotAsked | Self::Unknown { .. } => None,
        }
    }

    /// For the log: no field where nobody asked, the word `unknown` where Envoy did not tell.
    #[must_use]
    pub fn word(&self) -> Option<String> {
        match self {
            Self::NotAsked => None,
            Self::Unknown { .. } => Some("unknown".to_owned()),
            Self::Known { active, .. } => Some(active.total().to_string()),
        }
    }
}

/// A consistent picture of everything.
#[derive(Clone, Debug)]
pub struct View {
    pub machine: Machine,
    pub reading: Reading,
    /// When the present state began, by the clock that nobody sets.
    pub entered: Instant,
    /// Set when nothing more will happen by itself, with the instant.
    pub settled: Option<Instant>,
}

impl View {
    #[must_use]
    pub fn state(&self) -> State {
        self.machine.state()
    }

    /// How a drain that ended so is told to the parent process.
    #[must_use]
    pub fn exit(&self) -> Exit {
        Exit::of_end(self.state(), self.machine.reason())
    }
}

/// Shared by the server, the drain and the signals.
#[derive(Clone, Debug)]
pub struct Sidecar {
    view: Arc<watch::Sender<View>>,
    log: Log,
}

impl Sidecar {
    /// In OPEN.
    #[must_use]
    pub fn new(log: Log) -> Self {
        let view = View {
            machine: Machine::new(SystemTime::now()),
            reading: Reading::NotAsked,
            entered: Instant::now(),
            settled: Some(Instant::now()),
        };
        Self { view: Arc::new(watch::Sender::new(view)), log }
    }

    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The picture now.
    #[must_use]
    pub fn view(&self) -> View {
        self.view.borrow().clone()
    }

    /// The picture now, and word of each change.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    /// Applies a cause, whatever the state is.
    pub fn apply(&self, cause: Cause) -> Result<Outcome, Refusal> {
        self.change(cause, None).unwrap_or(Ok(Outcome::Already))
    }

    /// Applies what the drain found out in the stay in a state that has this revision; if that is over,
    /// nothing happens: somebody was faster, and the finding is about another time.
    pub fn apply_in(&self, revision: u64, cause: Cause) {
        if let Some(Err(refusal)) = self.change(cause, Some(revision)) {
            self.log.tell(Line::new(SystemTime::now(), "refused").with("why", refusal));
        }
    }

    fn change(&self, cause: Cause, revision: Option<u64>) -> Option<Result<Outcome, Refusal>> {
        let mut result = None;
        self.view.send_if_modified(|view| {
            if revision.is_some_and(|revision| revision != view.machine.revision()) {
                return false;
            }
            let now = SystemTime::now();
            let outcome = view.machine.apply(cause, now);
            let changed = if let Ok(Outcome::Changed { from }) = &outcome {
                self.enter(view, *from, now);
                true
            } else {
                false
            };
            result = Some(outcome);
            changed
        });
        result
    }

    /// What goes with every change of state.
    fn enter(&self, view: &mut View, from: State, now: SystemTime) {
        let to = view.state();
        self.log.tell(
            Line::new(now, "transition")
                .with("from", from)
                .with("to", to)
                .with("reason", view.machine.reason())
                .with_some("active", view.reading.word()),
        );
        view.entered = Instant::now();
        view.settled = matches!(to, State::Open | State::Closed).then(Instant::now);
        if to == State::Open {
            view.reading = Reading::NotAsked;
        }
    }

    /// FAULT has lasted as long as the LB needs to notice.
    pub fn settle_in(&self, revision: u64) {
        self.view.send_if_modified(|view| {
            let now = view.machine.revision() == revision && view.settled.is_none();
            if now {
                view.settled = Some(Instant::now());
                self.log.tell(Line::new(SystemTime::now(), "drain_over").with("state", view.state()));
            }
            now
        });
    }

    /// Takes in what Envoy told during the stay in a state that has this revision, and logs it if it is
    /// something new.
    pub fn record_in(&self, revision: u64, result: &Result<Active, ReadError>) {
        let at = SystemTime::now();
        let reading = match result {
            Ok(active) => Reading::Known { active: *active, at },
            Err(error) => Reading::Unknown { why: error.to_string(), at },
        };
        self.view.send_if_modified(|view| {
            if view.machine.revision() != revision {
                return false;
            }
            if !same(&view.reading, &reading) {
                self.log.tell(match &reading {
                    Reading::Known { active, .. } => Line::new(at, "active")
                        .with("active", active.total())
                        .with("downstream", active.downstream)
                        .with("upstream", active.upstream),
                    Reading::Unknown { why, .. } => {
                        Line::new(at, "poll_error").with("active", "unknown").with("cause", why)
                    }
                    Reading::NotAsked => return false,
                });
            }
            view.reading = reading;
            true
        });
    }

    /// SIGTERM: no reopening any more, and a drain if there was none.
    pub fn stop(&self) {
        self.view.send_modify(|view| view.machine.stop());
        if self.view().state() == State::Open
            && let Err(refusal) = self.apply(Cause::Sigterm)
        {
            self.log.tell(Line::new(SystemTime::now(), "refused").with("why", refusal));
        }
    }

    /// Waits until nothing more will happen by itself and the state is not OPEN. Then still a moment, if
    /// that came about just now: whoever follows the drain asks for its end.
    pub async fn over(&self, linger: Duration) {
        let mut watch = self.watch();
        // The sender lives as long as `self`. What is given is a lock on the view: it must not live on here,
        // or the next change would wait for it, and with it everything.
        let _never_closed =
            watch.wait_for(|view| view.settled.is_some() && view.state() != State::Open).await.map(drop);
        let settled = self.view().settled.map_or(Duration::ZERO, |settled| settled.elapsed());
        tokio::time::sleep(linger.saturating_sub(settled)).await;
    }

    /// The value of the header `Warning`, while the pod is open again after a 503 to the LB.
    #[must_use]
    pub fn warning(view: &View) -> Option<String> {
        view.machine.reopened().map(|reopened| {
            format!("199 gt-hc \"reopened from {} at {}\"", reopened.from, clock::utc(reopened.at))
        })
    }
}

/// Whether a second line about it would tell nothing new.
fn same(old: &Reading, new: &Reading) -> bool {
    match (old, new) {
        (Reading::Known { active: old, .. }, Reading::Known { active: new, .. }) => old == new,
        (Reading::Unknown { why: old, .. }, Reading::Unknown { why: new, .. }) => old == new,
        _ => false,
    }
}
