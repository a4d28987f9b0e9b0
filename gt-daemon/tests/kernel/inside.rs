//! What the whole daemon reads inside a pod, and what comes of it.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use xtask::sandbox::{Netns, eventually};

use crate::{
    Case,
    conversations::pair::Pair,
    daemon::{Backend, Shared},
    families::are_all_told,
    scene::{Family, Scene},
};

pub const HC: u16 = 18_180;
const ENVOY: u16 = 15_000;

/// What a port of the pod says at each question.
pub type Says = Arc<Mutex<String>>;

pub fn cases(backend: Backend, skip: Option<&String>) -> Vec<Case> {
    let name = |test: &str| format!("{}::inside::{test}", backend.name());
    let skip = skip.cloned();
    vec![
        Case::new(name("a_cut_bears_the_state"), skip.clone(), move || a_cut_bears_the_state(backend)),
        Case::new(name("silence_is_told_once"), skip, move || silence_is_told_once(backend)),
    ]
}

/// Serves on a port of the pod's loopback.
pub fn serve(netns: &Netns, port: u16, says: &Says) -> Result<()> {
    let listener = netns.enter(|| TcpListener::bind(("127.0.0.1", port)))??;
    let says = Arc::clone(says);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(std::result::Result::ok) {
            let says = Arc::clone(&says);
            thread::spawn(move || {
                while let Ok(1..) = stream.read(&mut [0; 2048]) {
                    let body = says.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    Ok(())
}

pub fn say(says: &Says, body: String) {
    *says.lock().unwrap_or_else(PoisonError::into_inner) = body;
}

pub fn state(name: &str) -> String {
    format!(r#"{{"state":"{name}","since":null,"active":null,"reason":null}}"#)
}

/// Exercises a pod's sidecar and Envoy over a drain, so that metrics tell what they say, and each cut bears the
/// sidecar's state of its moment. Each family of metrics has a series by then, with the labels that are documented.
fn a_cut_bears_the_state(backend: Backend) -> Result<()> {
    let ports = format!("hc_port = {HC}\nenvoy_port = {ENVOY}");
    let scene = Scene::with(&Shared::of(backend)?, Family::V4, &ports)?;
    let count = |metric: &str, labels: &[(&str, &str)]| scene.watched.count(metric, labels);
    ensure!(count("gt_hc_state", &[("state", "unknown")])? == 1, "{:?}", scene.watched.daemon().metrics());
    ensure!(scene.watched.find("gt_envoy_downstream_rq_active", &[])?.is_none(), "unknown is no number");
    let (hc, envoy) = (Says::default(), Says::default());
    say(&envoy, "http.in.downstream_rq_active: 3\ncluster.a.upstream_rq_active: 2\n".to_owned());
    say(&hc, state("DRAINING"));
    serve(&scene.pod, HC, &hc)?;
    serve(&scene.pod, ENVOY, &envoy)?;
    for name in ["DRAINING", "CLOSING"] {
        say(&hc, state(name));
        eventually("the state", Duration::from_secs(150), || {
            (count("gt_hc_state", &[("state", name)]).ok()? == 1).then_some(())
        })
        .with_context(|| scene.watched.daemon().log())?;
        ensure!(count("gt_hc_state", &[])? == 1, "one state at a time");
        let mut pair = Pair::inbound(&scene)?;
        pair.request()?;
        drop(pair.peer_close()?);
        scene.watched.expect("gt_inflight_cuts_total", &[("hc_state", name), ("evidence", "socket")], 1)?;
    }
    scene.watched.expect("gt_envoy_downstream_rq_active", &[], 3)?;
    scene.watched.expect("gt_envoy_upstream_rq_active", &[], 2)?;
    for source in ["hc", "envoy"] {
        ensure!(count("gt_pod_source_up", &[("source", source)])? == 1, "{source}");
    }
    let metrics = scene.watched.daemon().metrics()?;
    ensure!(metrics.sum("gt_poll_seconds_count", &[("source", "hc")]) >= Some(2), "{metrics:?}");
    ensure!(metrics.sum("gt_events_lost_total", &[("where", "observe")]) == Some(0), "{metrics:?}");
    are_all_told(&scene.watched.daemon().exposition()?)
}

/// Exercises a sidecar that begins to answer nonsense and comes to its senses, so that the log names it once, with cause
/// and remedy, and once more when it is over.
fn silence_is_told_once(backend: Backend) -> Result<()> {
    let scene = Scene::with(&Shared::of(backend)?, Family::V4, &format!("hc_port = {HC}"))?;
    let daemon = scene.watched.daemon();
    let up = |expected: u64| {
        let labels = [("source", "hc")];
        eventually("the sidecar to be seen so", Duration::from_secs(150), || {
            (scene.watched.count("gt_pod_source_up", &labels).ok()? == expected).then_some(())
        })
        .with_context(|| daemon.log())
    };
    let pod = format!("pod=\"{}\"", scene.watched.name);
    let told =
        |words: &str| daemon.log().lines().filter(|line| line.contains(&pod) && line.contains(words)).count();
    let hc = Says::default();
    // Asked often.
    say(&hc, state("DRAINING"));
    serve(&scene.pod, HC, &hc)?;
    up(1)?;
    say(&hc, state("SLEEPING"));
    up(0)?;
    // A slow machine asks seldom: one failure may be all that came by now, and is not told.
    eventually("the silence in the log", Duration::from_secs(20), || {
        (told("not read: port 18180") == 1).then_some(())
    })
    .with_context(|| daemon.log())?;
    // Failures make questions rare: some must have come since.
    thread::sleep(Duration::from_secs(4));
    say(&hc, state("DRAINING"));
    up(1)?;
    eventually("the recovery in the log", Duration::from_secs(5), || (told("read again") == 1).then_some(()))
        .with_context(|| daemon.log())?;
    ensure!(told("not read: port 18180") == 1, "{}", daemon.log());
    ensure!(told("SLEEPING") >= 1, "{}", daemon.log());
    Ok(())
}
