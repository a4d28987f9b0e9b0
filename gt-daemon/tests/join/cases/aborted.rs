//! Clients that go away by themselves while nothing is wrong with the pod.

use std::time::Duration;

use anyhow::Result;
use xtask::stage::{lb, wire::End};

use super::{nothing_left, rounds};
use crate::{
    expected::{Cut, Expected, How, Requests},
    scene::{BY_HAND, Scene},
    suite::Case,
};

pub fn cases(missing: Option<&String>) -> Vec<Case> {
    vec![
        Case::new("aborted::one_waits", missing, one_waits),
        Case::new("aborted::one_streams", missing, one_streams),
        Case::new("aborted::one_has_streamed", missing, one_has_streamed),
    ]
}

/// After this time an answer that still comes is no prompt one (docs/verdicts.md).
const PROMPT: Duration = Duration::from_millis(300);

/// A client that leaves, and what HAProxy calls that.
fn abort(session: &'static str) -> Expected {
    Expected {
        sessions: (session, 1),
        envoy: Some(Requests { http1: 1, http2: 0, cut: 1 }),
        ended: 1..=1,
        ends: &[End::FinReceived, End::RstReceived],
        cut: Some(Cut {
            count: 1,
            how: How::AsOnTheWire,
            cause: "client_abort",
            hc_state: "OPEN",
            evidence: &["l7"],
        }),
    }
}

/// Exercises a client that does not wait for its answer. HAProxy passes that on only when its frontend is told to: else it
/// waits for the answer itself, and nothing is cut.
fn one_waits() -> Result<()> {
    let lb = lb::Config { options: vec!["option abortonclose"], ..lb::Config::default() };
    rounds(&lb, &BY_HAND, &abort("CH--"), |scene| scene.hold(1).map(drop), nothing_left)
}

fn streaming(play: impl Fn(&mut Scene) -> Result<()>) -> Result<()> {
    rounds(&lb::Config::default(), &BY_HAND, &abort("CD--"), play, nothing_left)
}

/// Exercises a client that goes at the beginning of its answer: by the socket alone, that one was prompt and is over.
fn one_streams() -> Result<()> {
    streaming(|scene| scene.stream().map(drop))
}

/// Exercises a client that goes in the middle of its answer.
fn one_has_streamed() -> Result<()> {
    streaming(|scene| {
        let mut client = scene.stream()?;
        client.body_lasts(PROMPT)
    })
}
