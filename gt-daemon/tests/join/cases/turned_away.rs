//! Current mode: the sidecar tells 503 at once, and HAProxy shuts every session when it marks the pod DOWN.

use std::time::Duration;

use anyhow::Result;
use xtask::stage::{interrupt, lb, wire::End};

use super::{ANY, nothing_left, rounds};
use crate::{
    expected::{Cut, Expected, How, Requests},
    scene::{BY_HAND, SOON, Scene, all_refused, broken_off},
    suite::Case,
};

pub fn cases(missing: Option<&String>) -> Vec<Case> {
    vec![
        Case::new("turned_away::one_waits", missing, one_waits),
        Case::new("turned_away::six_wait", missing, six_wait),
        Case::new("turned_away::one_streams", missing, one_streams),
        Case::new("turned_away::one_http2_stream", missing, one_http2_stream),
        Case::new("turned_away::four_http2_streams", missing, four_http2_streams),
    ]
}

/// Sessions that all end so, and requests that are all cut by it.
fn flushed(sessions: (&'static str, u64), envoy: Requests, how: How) -> Expected {
    let count = sessions.1;
    let (ended, ends): (_, &[End]) = match how {
        // HAProxy begins with a FIN. An RST follows, or Envoy closes first.
        How::AsOnTheWire => (count..=count, &[End::FinReceived]),
        // Nothing at the cut. HAProxy resets a connection without streams some seconds later.
        How::StreamReset => (ANY, &[End::RstReceived]),
    };
    let cut = Cut { count, how, cause: "lb_flush", hc_state: "CLOSING", evidence: &["l7"] };
    Expected { sessions, envoy: Some(envoy), ended, ends, cut: Some(cut) }
}

fn waiting(count: u64) -> Result<()> {
    let envoy = Requests { http1: count, http2: 0, cut: count };
    let expected = flushed(("DH--", count), envoy, How::AsOnTheWire);
    rounds(
        &lb::Config::default(),
        &BY_HAND,
        &expected,
        |scene| hold_and_turn_away(scene, count),
        nothing_left,
    )
}

fn hold_and_turn_away(scene: &mut Scene, count: u64) -> Result<()> {
    let clients = scene.hold(count)?;
    scene.turn_away()?;
    all_refused(clients)
}

/// Exercises one request that waits for its answer so that its cut is one, by the flush of the LB.
fn one_waits() -> Result<()> {
    waiting(1)
}

/// Exercises six at once so that teardowns within one look at Envoy share the number it tells.
fn six_wait() -> Result<()> {
    waiting(6)
}

/// Exercises an answer that has begun, which by the socket alone is only possibly one.
fn one_streams() -> Result<()> {
    let expected = flushed(("DD--", 1), Requests { http1: 1, http2: 0, cut: 1 }, How::AsOnTheWire);
    let play = |scene: &mut Scene| {
        let client = scene.stream()?;
        scene.turn_away()?;
        broken_off(client)
    };
    rounds(&lb::Config::default(), &BY_HAND, &expected, play, nothing_left)
}

fn streams(count: u64) -> Result<()> {
    let expected =
        flushed(("DH--", count), Requests { http1: 0, http2: count, cut: count }, How::StreamReset);
    let last = |scene: &mut Scene| {
        interrupt::wait_for("HAProxy to end its idle connections", SOON, || {
            Ok((scene.envoy.stats()?.get("downstream_cx_active") == Some(&0)).then_some(()))
        })?;
        interrupt::pause(Duration::from_millis(100))
    };
    let lb = lb::Config { http2: true, options: vec!["http-reuse always"], ..lb::Config::default() };
    rounds(&lb, &BY_HAND, &expected, |scene| hold_and_turn_away(scene, count), last)
}

/// Exercises HTTP/2, of whose cut nothing is on the wire but a frame, so that Envoy's word alone makes it one; and that
/// the end of the connection, some seconds later, adds nothing.
fn one_http2_stream() -> Result<()> {
    streams(1)
}

/// Exercises streams of one connection so that each of them counts.
fn four_http2_streams() -> Result<()> {
    streams(4)
}
