//! `gt-hc drain`, the preStop command: starts the drain in the server, or joins the one that is on, and ends
//! when it is over.
//!
//! Owns: nothing. When it is killed the drain goes on; see `drain.rs` for who drives it.

use std::time::{Duration, SystemTime};

use tokio::{
    select,
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, sleep},
};

use super::{Client, ClientError};
use crate::{answers::StateBody, exit::Exit, fsm::State, log::Line, say};

/// From one look at the server to the next.
const LOOK: Duration = Duration::from_millis(200);

/// How long the server may be away: it may not listen yet when its pod is deleted right after its start.
const PATIENCE: Duration = Duration::from_secs(5);

/// Drains; prints a line for each thing that is new.
pub async fn drain(client: Client) -> Exit {
    let (mut terminate, mut interrupt) =
        match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
            (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
            (Err(error), _) | (_, Err(error)) => {
                say::err(format_args!("cannot take signals: {error}"));
                return Exit::Environment;
            }
        };
    select! {
        exit = follow(client) => exit,
        name = either(&mut terminate, &mut interrupt) => {
            say::err(format_args!(
                "{name}: this command ends, the drain goes on in the server; `gt-hc reopen` stops it"
            ));
            Exit::Interrupted
        }
    }
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

async fn follow(client: Client) -> Exit {
    let started = persist(|| async {
        match client.post("/drain").await {
            // A drain is on, or over: what it came to is seen below.
            Err(ClientError::Refused(_)) => client.state().await,
            other => other,
        }
    });
    let mut seen = match started.await {
        Ok(state) => state,
        Err(error) => {
            say::err(format_args!("nothing was drained: {error}"));
            return Exit::Environment;
        }
    };
    tell(&seen);
    loop {
        if seen.settled {
            return end(&seen);
        }
        sleep(LOOK).await;
        match persist(|| client.state()).await {
            Ok(now) => {
                if (now.state, now.active) != (seen.state, seen.active) {
                    tell(&now);
                }
                seen = now;
            }
            Err(error) => {
                say::err(format_args!("the server was lost in {}: {error}", seen.state));
                return Exit::Environment;
            }
        }
    }
}

/// Asks again while the server is away, for as long as it may be.
async fn persist<F>(mut ask: impl FnMut() -> F) -> Result<StateBody, ClientError>
where
    F: Future<Output = Result<StateBody, ClientError>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Err(ClientError::Unreachable { .. }) if Instant::now() < deadline => sleep(LOOK).await,
            other => return other,
        }
    }
}

fn tell(state: &StateBody) {
    let line = Line::new(SystemTime::now(), "drain")
        .with("state", state.state)
        .with("reason", &state.reason)
        .with("active", state.active.map_or_else(|| "unknown".to_owned(), |active| active.to_string()));
    say::out(line.as_str());
}

fn end(state: &StateBody) -> Exit {
    let exit = Exit::of_end(state.state, &state.reason);
    match (state.state, exit) {
        (State::Fault, Exit::Unknown) => say::err(format_args!(
            "DRAIN_TIMEOUT passed and Envoy could not be read: {}; requests may be in flight and will be cut",
            state.envoy.as_ref().and_then(|envoy| envoy.error.as_deref()).unwrap_or("see the server's log")
        )),
        (State::Fault, _) => say::err(
            "DRAIN_TIMEOUT passed with requests in flight, which will be cut: raise DRAIN_TIMEOUT, and \
             terminationGracePeriodSeconds with it (`gt-hc check`), or accept it; a stream without an end \
             needs another way, such as max_stream_duration",
        ),
        (State::Open, _) => say::err("the pod was reopened while it drained"),
        _ => {}
    }
    exit
}
