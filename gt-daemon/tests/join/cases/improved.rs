//! Improved mode: the preStop command holds the 503 back until nothing is in flight.

use anyhow::{Context as _, Result, ensure};
use xtask::stage::{client::Exchange, lb, lb::Checked, wire::End};

use super::{ANY, nothing_left, rounds};
use crate::{
    expected::{Expected, Requests},
    scene::{BY_ITSELF, SOON, Scene, all_served},
    suite::Case,
};

pub fn cases(missing: Option<&String>) -> Vec<Case> {
    vec![
        Case::new("improved::two_wait", missing, two_wait),
        Case::new("improved::one_streams", missing, one_streams),
        Case::new("improved::four_http2_streams", missing, four_http2_streams),
    ]
}

fn served(http1: u64, http2: u64) -> Expected {
    Expected {
        sessions: ("----", http1 + http2),
        envoy: Some(Requests { http1, http2, cut: 0 }),
        ended: ANY,
        ends: &[End::RstReceived],
        cut: None,
    }
}

/// The drain from its begin, with these requests in flight, to its end.
fn drained(scene: &mut Scene, clients: Vec<Exchange>) -> Result<()> {
    let mut drain = scene.drain()?;
    let checked = scene.lb.checked(lb::SERVER)?;
    ensure!(checked.is_up(), "HAProxy holds the pod for {} while requests are in flight", checked.status);
    scene.release()?;
    all_served(clients)?;
    let ended = drain.wait(SOON)?.context("gt-hc drain does not end")?;
    ensure!(ended.success(), "gt-hc drain ended with {ended}");
    let state = scene.hc_state()?;
    ensure!(state == "CLOSED", "gt-hc is in {state} after its drain");
    scene.lb.wait_for(lb::SERVER, Checked::is_down)
}

fn waiting(scene: &mut Scene, count: u64) -> Result<()> {
    let clients = scene.hold(count)?;
    drained(scene, clients)
}

/// Exercises requests that wait so that they have their answers, and nothing is cut.
fn two_wait() -> Result<()> {
    rounds(&lb::Config::default(), &BY_ITSELF, &served(2, 0), |scene| waiting(scene, 2), nothing_left)
}

/// Exercises an answer that goes on while the drain does.
fn one_streams() -> Result<()> {
    let play = |scene: &mut Scene| {
        let client = scene.stream()?;
        drained(scene, vec![client])
    };
    rounds(&lb::Config::default(), &BY_ITSELF, &served(1, 0), play, nothing_left)
}

/// Exercises streams of HTTP/2, so that Envoy's own counts hold the 503 back.
fn four_http2_streams() -> Result<()> {
    let lb = lb::Config { http2: true, options: vec!["http-reuse always"], ..lb::Config::default() };
    rounds(&lb, &BY_ITSELF, &served(0, 4), |scene| waiting(scene, 4), nothing_left)
}
