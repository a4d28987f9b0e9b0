//! The watch against a small server that replays recorded answers: what is told, whether the API counts as
//! up, and how often it is asked.

mod access;
mod changes;
mod faults;
mod lists;
mod load;
mod server;
mod stand_in;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use super::{Api, Manner, client::Limits, watch::Timing};
use crate::pods::{
    selection::Selection,
    source::{Reading, Source as _},
    wake::Sleeper,
};

/// A recorded answer.
fn recorded(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/api").join(name);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The daemon's manner, with shorter times.
fn hasty() -> Manner {
    let ms = Duration::from_millis;
    Manner {
        limits: Limits { answer: ms(500), requests: (100, ms(1000)), ..Limits::default() },
        timing: Timing {
            least: ms(20),
            most: ms(200),
            sound: ms(100),
            list: ms(700),
            watch: Duration::from_secs(30),
        },
    }
}

fn selection() -> Selection {
    Selection { container: Some("hc".to_owned()), ..Selection::default() }
}

/// The source, begun against a server.
fn begin(address: std::net::SocketAddr, selection: Selection, manner: Manner) -> Api {
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    Api::start_with(&config, "worker-1", selection, Sleeper::new().unwrap().waker(), manner).unwrap()
}

/// The names of the pods of a reading; `["?"]` when they are not known.
fn names(reading: &Reading) -> Vec<&str> {
    match &reading.pods {
        Some(pods) => pods.iter().map(|pod| pod.name.as_str()).collect(),
        None => vec!["?"],
    }
}

/// What `gt_source_up` is: `None` without a series.
fn up(reading: &Reading) -> Option<bool> {
    reading.places.iter().find(|place| place.name == super::NAME).map(|place| place.fault.is_none())
}

fn fault(reading: &Reading) -> &str {
    reading.places.iter().find_map(|place| place.fault.as_deref()).unwrap_or_default()
}

/// Reads until something is so, and returns that reading; fails when it is not within half a minute.
async fn until(api: &mut Api, what: impl Fn(&Reading) -> bool) -> Reading {
    let began = Instant::now();
    loop {
        let reading = api.read(Instant::now());
        if what(&reading) {
            return reading;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "still {reading:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until the pods are these and the API counts as up.
async fn until_up_with(api: &mut Api, expected: &[&str]) -> Reading {
    until(api, |reading| up(reading) == Some(true) && names(reading) == expected).await
}

/// Waits for a fault.
async fn until_down(api: &mut Api) -> Reading {
    until(api, |reading| up(reading) == Some(false)).await
}

/// Waits until so many requests were made, and that there are no more.
async fn settled(server: &server::Server, requests: usize) {
    let began = Instant::now();
    while server.asked().len() < requests && began.elapsed() < Duration::from_secs(30) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(server.asked().len(), requests, "{:?}", server.asked());
}
