//! As many connections in a second as this machine can make.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use xtask::sandbox::eventually;

use crate::{
    churn::many,
    daemon::{Backend, Shared},
    scene::{Family, Scene},
};

/// Listeners: so that clients do not run out of ports.
const LISTENERS: usize = 16;

/// Clients at a time.
const CLIENTS: usize = 4;

/// Exercises a burst of connections at full speed, each of which is opened and ended without a word, so that every one is in the counts,
/// and every end has its line in the log or is counted as lost.
pub(super) fn burst(backend: Backend) -> Result<()> {
    let daemon = Arc::new(Shared::start(backend, &[])?);
    let scene = Scene::new(&daemon, Family::V4)?;
    let length = Duration::from_secs(many(3, 10));
    let listeners = (0..LISTENERS).map(|_| scene.listen_in_pod()).collect::<Result<Vec<_>>>()?;
    let address = scene.pod_address()?;
    let targets = listeners
        .iter()
        .map(|listener| Ok(SocketAddr::new(address, listener.local_addr()?.port())))
        .collect::<Result<Vec<_>>>()?;
    let (accepted, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let begun = Instant::now();
    let dialled = thread::scope(|scope| {
        for listener in &listeners {
            scope.spawn(|| accept(listener, &accepted, &over));
        }
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                scope.spawn({
                    let (scene, targets) = (&scene, &targets);
                    move || scene.peer.enter(|| dial(targets, client, length))
                })
            })
            .collect();
        let mut dialled = 0;
        let mut failed = None;
        for client in clients {
            match client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).and_then(|made| made)
            {
                Ok(made) => dialled += made,
                Err(error) => failed = Some(error),
            }
        }
        // What is dialled waits to be accepted; then the servers end with one more each.
        let all = eventually("all to be accepted", Duration::from_secs(20), || {
            (failed.is_some() || accepted.load(Ordering::Relaxed) == dialled).then_some(())
        });
        over.store(true, Ordering::Relaxed);
        let woken =
            scene.peer.enter(|| targets.iter().try_for_each(|target| TcpStream::connect(target).map(drop)));
        failed.map_or(Ok(()), Err)?;
        woken??;
        all?;
        anyhow::Ok(dialled + LISTENERS as u64)
    })?;
    let took = begun.elapsed();
    let accepted = accepted.load(Ordering::Relaxed);
    ensure!(accepted == dialled, "{dialled} dialled, {accepted} accepted");
    let rate = accepted as f64 / took.as_secs_f64();
    ensure!(accepted > many(10_000, 200), "only {accepted} connections, {rate:.0} in a second");

    let pod = &scene.watched;
    let lost = |place| {
        pod.daemon()
            .metrics()
            .map(|metrics| metrics.sum("gt_events_lost_total", &[("where", place)]).unwrap_or(0))
    };
    let unseen = lost("connection_table")?;
    pod.expect("gt_connections_opened_total", &[("class", "data")], accepted - unseen)?;
    pod.expect("gt_connections_closed_total", &[("class", "data")], accepted - unseen)?;
    pod.expect("gt_active_connections", &[], 0)?;
    pod.expect("gt_closing_connections", &[], 0)?;

    let name = format!("pod=\"{}\"", pod.name);
    let mut last = String::new();
    eventually("each event to be told or lost", Duration::from_secs(10), || {
        let log = pod.daemon().log();
        let lines = |what: &str| {
            log.lines().filter(|line| line.contains(what) && line.contains(&name)).count() as u64
        };
        let (ends, rsts) = (lines(" teardown pod="), lines("what=Rst"));
        let (ring, observe, unjudged) =
            (lost("ring").ok()?, lost("observe").ok()?, lost("teardown").ok()?);
        // Which end is quicker decides whether there is an RST: an event of its own, told or lost.
        let further = pod.count("gt_rst_total", &[]).ok()?;
        last = format!(
            "{accepted} connections and {further} RSTs: {ends} ends and {rsts} RSTs told, {ring} events lost in the ring, {observe} \
             on the way, {unjudged} ends not judged"
        );
        let ended = accepted - unseen;
        (ended..=ended + further).contains(&(ends + ring + observe + unjudged)).then_some(())
    })
    .with_context(|| last.clone())?;
    println!("{rate:.0} connections in a second: {last}");
    Ok(())
}

fn accept(listener: &TcpListener, accepted: &AtomicU64, over: &AtomicBool) {
    while let Ok((stream, _)) = listener.accept() {
        drop(stream);
        accepted.fetch_add(1, Ordering::Relaxed);
        if over.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Dials and parts for a while; how many.
fn dial(targets: &[SocketAddr], first: usize, length: Duration) -> Result<u64> {
    let end = Instant::now() + length;
    let mut made = 0;
    for target in targets.iter().cycle().skip(first * targets.len() / CLIENTS) {
        if made % 64 == 0 && Instant::now() > end {
            break;
        }
        drop(TcpStream::connect(target).with_context(|| format!("connection {made}"))?);
        made += 1;
    }
    Ok(made)
}
