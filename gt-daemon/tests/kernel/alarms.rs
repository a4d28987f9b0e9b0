//! What looks like trouble in every packet capture and is none: no cut may be counted.

use std::{net::TcpListener, time::Duration};

use anyhow::{Context as _, Result, ensure};
use xtask::sandbox::eventually;

use crate::{
    Case, Skip,
    churn::{many, raise_file_limit},
    conversation::{abort, accept, exchange},
    daemon::{Backend, Shared},
    scene::{Ends, Family, Scene},
};

const REQUEST: &[u8] = b"GET /health_check.html HTTP/1.1\r\nhost: gt\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

pub fn cases(backend: Backend, skip: Option<&String>) -> Vec<Case> {
    let skip: Skip = skip.cloned();
    let mut cases = Vec::new();
    for family in [Family::V4, Family::V6] {
        let name = |test: &str| format!("{}::alarms::{test}_{}", backend.name(), family.name());
        cases.push(Case::new(name("health_checks"), skip.clone(), move || health_checks(backend, family)));
        cases.push(Case::new(name("idle_pool"), skip.clone(), move || idle_pool(backend, family)));
    }
    cases
}

/// Checks that an LB ends with an RST: after the answer, before it, and before the request was read.
fn health_checks(backend: Backend, family: Family) -> Result<()> {
    let scene = Scene::new(&Shared::of(backend)?, family)?;
    let listener = scene.listen_in_pod_on(18180)?;
    let checks = many(1000, 200);
    for number in 0..checks {
        let (mut pod, mut peer) = connect(&scene, &listener)?;
        if number % 4 == 0 {
            std::io::Write::write_all(&mut peer, REQUEST)?;
        } else {
            exchange(&mut peer, &mut pod, REQUEST)?;
        }
        if number % 2 == 1 {
            exchange(&mut pod, &mut peer, ANSWER)?;
        }
        let ends = Ends::of(&pod)?;
        abort(peer)?;
        // The RST comes before the pod closes, or it would be the pod's FIN that ends the check.
        scene.await_row(ends, |row| row.is_none())?;
    }
    is_no_alarm(&scene, "health", checks)
}

/// Connections that an LB keeps for later, and does away with.
fn idle_pool(backend: Backend, family: Family) -> Result<()> {
    let size = many(1000, 200);
    raise_file_limit(2 * size + 500)?;
    let scene = Scene::new(&Shared::of(backend)?, family)?;
    let listener = scene.listen_in_pod()?;
    let mut pool = Vec::new();
    for _ in 0..size {
        let (mut pod, mut peer) = connect(&scene, &listener)?;
        exchange(&mut peer, &mut pod, REQUEST)?;
        exchange(&mut pod, &mut peer, ANSWER)?;
        pool.push((pod, peer));
    }
    scene.watched.expect("gt_active_connections", &[("class", "data")], size)?;
    let (pods, peers): (Vec<_>, Vec<_>) = pool.into_iter().unzip();
    for peer in peers {
        abort(peer)?;
    }
    scene.watched.expect("gt_active_connections", &[("class", "data")], 0)?;
    drop(pods);
    is_no_alarm(&scene, "data", size)
}

fn connect(scene: &Scene, listener: &TcpListener) -> Result<(std::net::TcpStream, std::net::TcpStream)> {
    let peer = scene.dial_pod(listener.local_addr()?.port())?.context("the peer cannot dial the pod")?;
    Ok((accept(listener)?, peer))
}

/// Every RST is counted, and nothing else than connections and RSTs.
fn is_no_alarm(scene: &Scene, class: &str, connections: u64) -> Result<()> {
    let pod = &scene.watched;
    let received = [("direction", "received"), ("reason", "reset"), ("class", class)];
    pod.expect("gt_rst_total", &received, connections)?;
    pod.expect("gt_rst_total", &[], connections)?;
    for metric in ["gt_connections_opened_total", "gt_connections_closed_total"] {
        pod.expect(metric, &[("class", class)], connections)?;
        pod.expect(metric, &[], connections)?;
    }
    eventually("no connection to be left", Duration::from_secs(5), || {
        (pod.count("gt_closing_connections", &[]).ok()? == 0).then_some(())
    })?;
    for metric in ["gt_inflight_cuts_total", "gt_rst_during_inflight_total", "gt_active_connections"] {
        let count = pod.count(metric, &[])?;
        ensure!(count == 0, "{metric} is {count}, not 0");
    }
    Ok(())
}
