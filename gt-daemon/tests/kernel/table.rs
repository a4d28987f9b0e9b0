//! The table of connections when sockets share places in it, and when it is full.

use std::{
    net::{TcpListener, TcpStream},
    sync::Arc,
};

use anyhow::{Result, ensure};

use crate::{
    Case, Skip,
    conversation::{abort, accept},
    daemon::{Backend, Shared, WatchedPod},
    scene::{Family, Scene},
};

/// A power of two: there are as many places, and so two of the sockets share one, all chance apart.
const ROOM: u64 = 64;

pub fn cases(backend: Backend, skip: Option<&String>) -> Vec<Case> {
    let skip: Skip = skip.cloned();
    let name = |test: &str| format!("{}::table::{test}", backend.name());
    vec![
        Case::new(name("sockets_that_share_a_place"), skip.clone(), move || shared_places(backend)),
        Case::new(name("a_full_table"), skip, move || full(backend)),
    ]
}

/// Both ends of so many connections from the peer to the pod.
fn connections(scene: &Scene, listener: &TcpListener, count: u64) -> Result<Vec<(TcpStream, TcpStream)>> {
    let port = listener.local_addr()?.port();
    (0..count)
        .map(|_| {
            let peer = scene.dial_pod(port)??;
            Ok((accept(listener)?, peer))
        })
        .collect()
}

fn lost(pod: &WatchedPod) -> Result<u64> {
    let place = [("where", "connection_table")];
    Ok(pod.daemon().metrics()?.sum("gt_events_lost_total", &place).unwrap_or_default())
}

/// As many connections as were promised, again and again: all are in the table, wherever they lie, and each is told when
/// it ends, by a FIN or by an RST.
fn shared_places(backend: Backend) -> Result<()> {
    let room = ROOM.to_string();
    let scene = Scene::new(&Arc::new(Shared::start(backend, &["--connections", &room])?), Family::V4)?;
    let listener = scene.listen_in_pod()?;
    let pod = &scene.watched;
    let mut ended = 0;
    for round in 0..4 {
        let open = connections(&scene, &listener, ROOM)?;
        pod.expect("gt_connections_opened_total", &[], ended + ROOM)?;
        pod.expect("gt_active_connections", &[], ROOM)?;
        pod.expect("gt_connections_closed_total", &[], ended)?;
        // Every second one first: the others stay where they are.
        let (first, rest): (Vec<_>, Vec<_>) =
            open.into_iter().enumerate().partition(|(index, _)| (index + round) % 2 == 0);
        for (_, (server, peer)) in first {
            abort(peer)?;
            drop(server);
        }
        pod.expect("gt_active_connections", &[], ROOM / 2)?;
        pod.expect("gt_connections_closed_total", &[], ended + ROOM / 2)?;
        drop(rest);
        ended += ROOM;
        pod.expect("gt_active_connections", &[], 0)?;
        pod.expect("gt_connections_closed_total", &[], ended)?;
        pod.expect("gt_rst_total", &[("direction", "received"), ("reason", "reset")], ended / 2)?;
    }
    ensure!(lost(pod)? == 0, "{} connections found no place in the table", lost(pod)?);
    Ok(())
}

/// More connections than there is room for: those that are in the table are counted to their end, those that are not
/// are counted as lost, and none of them is forgotten. What comes when there is room again is in the table.
fn full(backend: Backend) -> Result<()> {
    const PROMISED: u64 = 4;
    const MADE: u64 = 20;

    let scene = Scene::new(
        &Arc::new(Shared::start(backend, &["--connections", &PROMISED.to_string()])?),
        Family::V4,
    )?;
    let listener = scene.listen_in_pod()?;
    let pod = &scene.watched;
    let open = connections(&scene, &listener, MADE)?;
    pod.expect("gt_connections_closed_total", &[], 0)?;
    let opened = pod.count("gt_connections_opened_total", &[])?;
    // So many places, and as many more for those that find theirs taken: one place at least is in use.
    ensure!((PROMISED + 1..=2 * PROMISED).contains(&opened), "{opened} connections are in the table");
    ensure!(opened + lost(pod)? == MADE, "{opened} in the table, {} lost, {MADE} made", lost(pod)?);
    pod.expect("gt_active_connections", &[], opened)?;
    drop(open);
    pod.expect("gt_active_connections", &[], 0)?;
    pod.expect("gt_closing_connections", &[], 0)?;
    pod.expect("gt_connections_closed_total", &[], opened)?;

    let lost_before = lost(pod)?;
    let open = connections(&scene, &listener, PROMISED)?;
    pod.expect("gt_active_connections", &[], PROMISED)?;
    drop(open);
    pod.expect("gt_connections_closed_total", &[], opened + PROMISED)?;
    ensure!(lost(pod)? == lost_before, "a connection finds no place though there is room");
    Ok(())
}
