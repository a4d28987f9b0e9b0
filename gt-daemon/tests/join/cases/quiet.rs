//! Ends of connections that carry no request: none of them is a cut.

use std::ops::RangeInclusive;

use anyhow::Result;
use xtask::stage::{lb, wire::End};

use super::{nothing_left, rounds};
use crate::{
    expected::{Expected, Requests},
    scene::{BY_HAND, Scene, all_served},
    suite::Case,
};

pub fn cases(missing: Option<&String>) -> Vec<Case> {
    vec![
        Case::new("quiet::pool_at_down", missing, pool_at_down),
        Case::new("quiet::pool_purge", missing, pool_purge),
        Case::new("quiet::connection_close", missing, connection_close),
    ]
}

/// Three requests, whole, after which nothing is in flight and so many connections end.
fn served(ended: RangeInclusive<u64>, ends: &'static [End]) -> Expected {
    Expected {
        sessions: ("----", 3),
        envoy: Some(Requests { http1: 3, http2: 0, cut: 0 }),
        ended,
        ends,
        cut: None,
    }
}

/// HAProxy keeps as many idle connections as it expects to need, and ends the others some at a time: also those of the
/// rounds before.
const PURGED: RangeInclusive<u64> = 1..=u64::MAX;

fn three_at_once(scene: &Scene) -> Result<()> {
    let clients = scene.hold(3)?;
    scene.release()?;
    all_served(clients)
}

/// Exercises a pod that is marked DOWN when only idle connections are left of it.
fn pool_at_down() -> Result<()> {
    let play = |scene: &mut Scene| {
        three_at_once(scene)?;
        scene.turn_away()
    };
    let lb = lb::Config { server_options: "pool-purge-delay 500ms".to_owned(), ..lb::Config::default() };
    rounds(&lb, &BY_HAND, &served(PURGED, &[End::RstReceived]), play, nothing_left)
}

/// Exercises HAProxy's housekeeping in ordinary work: idle connections end by a bare RST.
fn pool_purge() -> Result<()> {
    let play = |scene: &mut Scene| three_at_once(scene);
    let lb = lb::Config { server_options: "pool-purge-delay 100ms".to_owned(), ..lb::Config::default() };
    rounds(&lb, &BY_HAND, &served(PURGED, &[End::RstReceived]), play, nothing_left)
}

/// Exercises answers after which the connection ends, as the request asked for: by Envoy's FIN or, where HAProxy is
/// faster, by its bare RST.
fn connection_close() -> Result<()> {
    let play = |scene: &mut Scene| three_at_once(scene);
    let lb = lb::Config { options: vec!["option httpclose"], ..lb::Config::default() };
    rounds(
        &lb,
        &BY_HAND,
        &served(3..=3, &[End::FinSent, End::FinReceived, End::RstReceived]),
        play,
        nothing_left,
    )
}
