//! RST counts against tcpdump, packet for packet.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use xtask::sandbox::eventually;

use crate::{
    Case, Skip,
    conversation::{abort, accept, arrived, exchange, is_reset},
    daemon::{Backend, Shared},
    scene::{Family, Scene},
    wire::{Capture, Resets},
};

/// Who does it.
#[derive(Clone, Copy, Debug)]
enum Side {
    Pod,
    Peer,
}

/// What a test does, and what must be counted for it.
struct Script {
    name: &'static str,
    play: fn(&Scene) -> Result<()>,
    resets: Resets,
    /// The label `reason` of all its RSTs.
    reason: &'static str,
    /// Only seen where RSTs without a full socket are.
    without_socket: bool,
    /// Connections of the pod that are opened, and closed in the end.
    connections: u64,
}

const SENT: Resets = Resets { sent: 1, received: 0 };
const RECEIVED: Resets = Resets { sent: 0, received: 1 };

const SCRIPTS: &[Script] = &[
    Script {
        name: "unread_data_in_the_pod",
        play: |scene| unread(scene, Side::Pod),
        resets: SENT,
        reason: "active",
        without_socket: false,
        connections: 1,
    },
    Script {
        name: "unread_data_at_the_peer",
        play: |scene| unread(scene, Side::Peer),
        resets: RECEIVED,
        reason: "reset",
        without_socket: false,
        connections: 1,
    },
    Script {
        name: "linger_zero_in_the_pod",
        play: |scene| linger(scene, Side::Pod),
        resets: SENT,
        reason: "active",
        without_socket: false,
        connections: 1,
    },
    Script {
        name: "linger_zero_at_the_peer",
        play: |scene| linger(scene, Side::Peer),
        resets: RECEIVED,
        reason: "reset",
        without_socket: false,
        connections: 1,
    },
    Script {
        name: "pod_dials_a_closed_port",
        play: |scene| {
            let port = scene.listen_at_peer()?.local_addr()?.port();
            ensure!(scene.dial_peer(port)?.is_err(), "nobody listens");
            Ok(())
        },
        resets: RECEIVED,
        reason: "refused",
        without_socket: false,
        connections: 0,
    },
    Script {
        name: "peer_dials_a_closed_port",
        play: |scene| {
            let port = scene.listen_in_pod()?.local_addr()?.port();
            ensure!(scene.dial_pod(port)?.is_err(), "nobody listens");
            Ok(())
        },
        resets: SENT,
        reason: "no_socket",
        without_socket: true,
        connections: 0,
    },
    Script {
        name: "idle_connection_reset_by_the_peer",
        play: |scene| {
            let (mut pod, mut peer) = inbound(scene)?;
            exchange(&mut peer, &mut pod, b"GET / HTTP/1.1\r\n\r\n")?;
            exchange(&mut pod, &mut peer, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
            abort(peer)?;
            is_reset(&mut pod)
        },
        resets: RECEIVED,
        reason: "reset",
        without_socket: false,
        connections: 1,
    },
    Script {
        name: "outbound_connection_reset_by_the_peer",
        play: |scene| {
            let listener = scene.listen_at_peer()?;
            let mut pod = scene.dial_peer(listener.local_addr()?.port())??;
            let mut peer = accept(&listener)?;
            exchange(&mut pod, &mut peer, b"question")?;
            abort(peer)?;
            is_reset(&mut pod)
        },
        resets: RECEIVED,
        reason: "reset",
        without_socket: false,
        connections: 1,
    },
    Script {
        name: "late_data_meets_a_time_wait_socket",
        play: |scene| {
            let (pod, mut peer) = inbound(scene)?;
            drop(pod);
            ensure!(std::io::Read::read(&mut peer, &mut [0])? == 0, "expected the end of the stream");
            // Once its FIN is acknowledged, the pod's orphaned socket becomes a TIME_WAIT one.
            eventually("the pod's FIN to be acknowledged", Duration::from_secs(5), || {
                (!scene.has_fin_wait_1().ok()?).then_some(())
            })?;
            std::io::Write::write_all(&mut peer, b"late")?;
            // The peer has read the end of the stream: the reset shows as a broken pipe.
            eventually("the reset", Duration::from_secs(5), || peer.take_error().ok().flatten()).map(drop)
        },
        resets: SENT,
        reason: "time_wait",
        without_socket: true,
        connections: 1,
    },
];

/// Every script by every address family, and one that plays all of them in one capture.
pub fn cases(backend: Backend, skip: Option<&String>) -> Vec<Case> {
    let skip: Skip = skip.cloned();
    let mut cases = Vec::new();
    for family in Family::ALL {
        for script in SCRIPTS {
            let name = format!("{}::rst::{}_{}", backend.name(), script.name, family.name());
            cases.push(Case::new(name, skip.clone(), move || one(backend, family, script)));
        }
        let name = format!("{}::rst::all_in_one_capture_{}", backend.name(), family.name());
        cases.push(Case::new(name, skip.clone(), move || all(backend, family)));
    }
    cases
}

fn inbound(scene: &Scene) -> Result<(std::net::TcpStream, std::net::TcpStream)> {
    let listener = scene.listen_in_pod()?;
    let peer = scene.dial_pod(listener.local_addr()?.port())?.context("the peer cannot dial the pod")?;
    Ok((accept(&listener)?, peer))
}

fn unread(scene: &Scene, closes: Side) -> Result<()> {
    let (pod, peer) = inbound(scene)?;
    let (closer, mut other) = match closes {
        Side::Pod => (pod, peer),
        Side::Peer => (peer, pod),
    };
    std::io::Write::write_all(&mut other, b"never read")?;
    arrived(&closer)?;
    drop(closer);
    is_reset(&mut other)
}

fn linger(scene: &Scene, aborts: Side) -> Result<()> {
    let (pod, peer) = inbound(scene)?;
    let (aborter, mut other) = match aborts {
        Side::Pod => (pod, peer),
        Side::Peer => (peer, pod),
    };
    abort(aborter)?;
    is_reset(&mut other)
}

/// One script: the capture, the counts and the script's own expectation agree.
fn one(backend: Backend, family: Family, script: &Script) -> Result<()> {
    let scene = Scene::new(&Shared::of(backend)?, family)?;
    let capture = Capture::start(&scene.pod)?;
    (script.play)(&scene)?;
    let captured = capture.finish(script.resets)?;
    ensure!(captured == script.resets, "tcpdump captured {captured:?}, the script makes {:?}", script.resets);
    let direction = if captured.sent > 0 { "sent" } else { "received" };
    if script.without_socket && !backend.sees_no_socket() {
        let labels = [("direction", direction), ("reason", script.reason)];
        let found = scene.watched.find("gt_rst_total", &labels)?;
        ensure!(found.is_none(), "what this hook cannot see must have no series, not {found:?}");
    } else {
        let labels = [("direction", direction), ("reason", script.reason)];
        scene.watched.expect("gt_rst_total", &labels, 1)?;
        same(&scene, captured)?;
    }
    scene.watched.expect("gt_connections_opened_total", &[], script.connections)?;
    scene.watched.expect("gt_connections_closed_total", &[], script.connections)
}

/// All scripts in one run on one pod: the sums agree in both directions.
fn all(backend: Backend, family: Family) -> Result<()> {
    let scene = Scene::new(&Shared::of(backend)?, family)?;
    let capture = Capture::start(&scene.pod)?;
    let mut expected = Resets { sent: 0, received: 0 };
    let mut connections = 0;
    for script in SCRIPTS.iter().filter(|script| !script.without_socket || backend.sees_no_socket()) {
        (script.play)(&scene).context(script.name)?;
        expected.sent += script.resets.sent;
        expected.received += script.resets.received;
        connections += script.connections;
    }
    let captured = capture.finish(expected)?;
    ensure!(captured == expected, "tcpdump captured {captured:?}, the scripts make {expected:?}");
    same(&scene, captured)?;
    scene.watched.expect("gt_connections_opened_total", &[], connections)
}

fn same(scene: &Scene, captured: Resets) -> Result<()> {
    scene.watched.expect("gt_rst_total", &[("direction", "sent")], captured.sent)?;
    scene.watched.expect("gt_rst_total", &[("direction", "received")], captured.received)
}
