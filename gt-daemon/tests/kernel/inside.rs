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
    scene::{Family, Scene},
};

const PORT: u16 = 18_180;

pub fn cases(backend: Backend, skip: Option<&String>) -> Vec<Case> {
    let name = format!("{}::inside::a_cut_bears_the_state", backend.name());
    vec![Case::new(name, skip.cloned(), move || a_cut_bears_the_state(backend))]
}

/// Serves `/state` on the pod's loopback: the state as it is at each question.
fn serve(netns: &Netns, state: Arc<Mutex<&'static str>>) -> Result<()> {
    let listener = netns.enter(|| TcpListener::bind(("127.0.0.1", PORT)))??;
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(std::result::Result::ok) {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                while let Ok(1..) = stream.read(&mut [0; 2048]) {
                    let state = *state.lock().unwrap_or_else(PoisonError::into_inner);
                    let body = format!(r#"{{"state":"{state}","since":null,"active":null,"reason":null}}"#);
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

/// Exercises a pod's sidecar over a drain, so that metrics tell its state, and each cut bears the state of its moment.
fn a_cut_bears_the_state(backend: Backend) -> Result<()> {
    let scene = Scene::with(&Shared::of(backend)?, Family::V4, &format!("hc_port = {PORT}"))?;
    let count = |metric: &str, labels: &[(&str, &str)]| scene.watched.count(metric, labels);
    ensure!(count("gt_hc_state", &[("state", "unknown")])? == 1, "{:?}", scene.watched.daemon().metrics());
    let state = Arc::new(Mutex::new("DRAINING"));
    serve(&scene.pod, Arc::clone(&state))?;
    for name in ["DRAINING", "CLOSING"] {
        *state.lock().unwrap_or_else(PoisonError::into_inner) = name;
        eventually("the state", Duration::from_secs(20), || {
            (count("gt_hc_state", &[("state", name)]).ok()? == 1).then_some(())
        })
        .with_context(|| scene.watched.daemon().log())?;
        ensure!(count("gt_hc_state", &[])? == 1, "one state at a time");
        let mut pair = Pair::inbound(&scene)?;
        pair.request()?;
        drop(pair.peer_close()?);
        scene.watched.expect("gt_inflight_cuts_total", &[("hc_state", name), ("evidence", "socket")], 1)?;
    }
    ensure!(count("gt_pod_source_up", &[("source", "hc")])? == 1);
    let metrics = scene.watched.daemon().metrics()?;
    ensure!(metrics.sum("gt_poll_seconds_count", &[("source", "hc")]) >= Some(2), "{metrics:?}");
    ensure!(metrics.sum("gt_events_lost_total", &[("where", "observe")]) == Some(0), "{metrics:?}");
    Ok(())
}
