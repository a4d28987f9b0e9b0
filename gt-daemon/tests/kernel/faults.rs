//! The daemon stopped and killed at bad moments: what it did not see is told, and what it says is right.

mod burst;
mod clock;
mod crowd;
mod destroyed;
mod suspended;

use std::{fs, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use gt_common::event::Event;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use xtask::sandbox::eventually;

use crate::{
    Case,
    conversations::pair::Pair,
    daemon::{Backend, Daemon, Shared},
    inside::{HC, Says, say, serve, state},
    scene::{Family, Scene},
};

/// By one backend: what is tried is the daemon, and to fill the ring takes minutes in an emulated machine.
pub fn cases(backend: Backend, skip: Option<&String>) -> Vec<Case> {
    let has_tracepoints = Backend::Btf.unavailable().is_none();
    if (backend == Backend::Btf) != has_tracepoints {
        return Vec::new();
    }
    let name = |test: &str| format!("{}::faults::{test}", backend.name());
    vec![
        Case::new(name("stopped_while_the_ring_fills"), skip.cloned(), move || stopped(backend)),
        Case::new(name("killed_in_a_drain"), skip.cloned(), move || killed(backend)),
        Case::new(name("suspended"), skip.cloned(), move || suspended::suspended(backend)),
        Case::new(name("destroyed_with_live_sockets"), skip.cloned(), move || destroyed::destroyed(backend)),
        Case::new(name("hundreds_of_slow_readers"), skip.cloned(), move || crowd::crowd(backend)),
        Case::new(name("a_burst"), skip.cloned(), move || burst::burst(backend)),
        // Another name than the others have, which need no guest.
        Case::new(
            format!("{}::clock::set_while_a_pod_drains", backend.name()),
            skip.cloned().or_else(clock::unsettable),
            move || clock::set(backend),
        ),
    ]
}

fn signal(daemon: &Daemon, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(i32::try_from(daemon.id())?);
    kill(pid, signal).with_context(|| format!("cannot send {signal} to the daemon"))
}

/// More ends than the ring has room for (512 KiB, gt-ebpf/src/event.rs), each an event with a head of eight bytes.
const TOO_MANY: usize = (1 << 19) / (size_of::<Event>() + 8) * 5 / 4;

/// A daemon that does not run while more happens than the ring can hold: the counts are the kernel's and right, what was not
/// told is counted as lost, a pod that drained meanwhile is not called protected, and the next cut is seen as ever.
fn stopped(backend: Backend) -> Result<()> {
    let daemon = Arc::new(Shared::start(backend, &["--retain", "600"])?);
    let scene = Scene::with(&daemon, Family::V4, &format!("hc_port = {HC}"))?;
    let hc = Says::default();
    say(&hc, state("OPEN"));
    serve(&scene.pod, HC, &hc)?;
    shows(&daemon.daemon, &scene.watched.name, "OPEN")?;
    say(&hc, state("DRAINING"));
    shows(&daemon.daemon, &scene.watched.name, "DRAINING")?;

    let before = scene.watched.count("gt_connections_closed_total", &[("class", "data")])?;
    signal(&daemon.daemon, Signal::SIGSTOP)?;
    let made = fill(&scene);
    signal(&daemon.daemon, Signal::SIGCONT)?;
    made?;
    let ended = before + u64::try_from(TOO_MANY)?;
    scene.watched.expect("gt_connections_closed_total", &[("class", "data")], ended)?;
    scene.watched.expect("gt_active_connections", &[("class", "data")], 0)?;
    let lost = daemon.daemon.metrics()?.sum("gt_events_lost_total", &[("where", "ring")]);
    ensure!(lost.is_some_and(|lost| lost > 0), "nothing was lost: {lost:?}");

    let later = Scene::with(&daemon, Family::V4, "")?;
    let mut pair = Pair::inbound(&later)?;
    pair.request()?;
    drop(pair.peer_close()?);
    later.watched.expect("gt_inflight_cuts_total", &[("evidence", "socket")], 1)?;

    let name = scene.watched.name.clone();
    let Scene { watched, pod, peer, .. } = scene;
    drop(watched);
    let verdict = eventually("the verdict", Duration::from_secs(120), || {
        let metrics = daemon.daemon.metrics().ok()?;
        let of = |verdict| metrics.sum("gt_drains_total", &[("pod", &name), ("verdict", verdict)]) == Some(1);
        ["protected", "broken", "inconclusive"].into_iter().find(|verdict| of(verdict))
    })?;
    drop((pod, peer));
    ensure!(verdict == "inconclusive", "{verdict}, and events of it were lost:\n{}", daemon.daemon.log());
    Ok(())
}

/// Connections that a user opens, one after the other, and ends without a request.
fn fill(scene: &Scene) -> Result<()> {
    let listener = scene.listen_in_pod()?;
    let port = listener.local_addr()?.port();
    for _ in 0..TOO_MANY {
        let peer = scene.dial_pod(port)??;
        let (pod, _) = listener.accept()?;
        drop(peer);
        drop(pod);
    }
    Ok(())
}

fn shows(daemon: &Daemon, pod: &str, state: &str) -> Result<()> {
    eventually("the sidecar's state", Duration::from_secs(150), || {
        let told = daemon.metrics().ok()?.sum("gt_hc_state", &[("pod", pod), ("state", state)])?;
        (told == 1).then_some(())
    })
    .with_context(|| daemon.log())
}

/// A daemon that is killed while a pod drains, and the one that comes after it: its gauges are right at once, and since it did
/// not see the drain begin it calls it inconclusive, although nothing that it saw was cut.
fn killed(backend: Backend) -> Result<()> {
    let records = tempfile::tempdir()?;
    let record = records.path().to_str().context("the directory's name is no text")?;
    let first = Arc::new(Shared::start(backend, &["--record", record])?);
    let scene = Scene::with(&first, Family::V4, &format!("hc_port = {HC}"))?;
    let name = scene.watched.name.clone();
    let hc = Says::default();
    say(&hc, state("OPEN"));
    serve(&scene.pod, HC, &hc)?;
    shows(&first.daemon, &name, "OPEN")?;
    let mut pair = Pair::inbound(&scene)?;
    pair.request()?;
    pair.answer()?;
    say(&hc, state("DRAINING"));
    shows(&first.daemon, &name, "DRAINING")?;
    signal(&first.daemon, Signal::SIGKILL)?;

    let second = Daemon::start(&[
        "--pods",
        &first.pods(),
        "--attach",
        backend.name(),
        "--record",
        record,
        "--retain",
        "600",
    ])?;
    shows(&second, &name, "DRAINING")?;
    let open = |count| {
        eventually("the gauge", Duration::from_secs(20), || {
            // Whose connection it was cannot be told any more: nobody listens on its port. Of gt's own none is counted.
            let told = second.metrics().ok()?.sum("gt_active_connections", &[("pod", name.as_str())])?;
            (told == count).then_some(())
        })
        .with_context(|| second.log())
    };
    open(1)?;
    say(&hc, state("CLOSING"));
    shows(&second, &name, "CLOSING")?;
    drop(pair.peer_close()?);
    open(0)?;
    let Scene { watched, pod, peer, .. } = scene;
    drop(watched);
    let summary = eventually("the record", Duration::from_secs(120), || {
        let place = fs::read_dir(records.path()).ok()?.find_map(Result::ok)?.path();
        serde_json::from_slice::<serde_json::Value>(&fs::read(place.join("intervals.json")).ok()?).ok()
    })
    .with_context(|| second.log())?;
    drop((pod, peer));
    ensure!(summary["verdict"] == "inconclusive" && summary["evidence"]["cuts"] == 0, "{summary}");
    Ok(())
}
