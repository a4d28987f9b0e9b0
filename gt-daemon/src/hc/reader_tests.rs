use std::{
    fs::File,
    sync::{Mutex, PoisonError},
};

use gt_common::connection::HcState;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::timeout,
};

use super::*;
use crate::{dial::Address, poll::Pace};

/// Status and body for a path; `None` to hang.
type Script = fn(&str) -> Option<(u16, &'static str)>;

/// A scripted hc.
async fn hc(answer: Script) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                let mut head = vec![0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut head).await {
                    let text = String::from_utf8_lossy(&head[..read]).into_owned();
                    let path = text.split(' ').nth(1).unwrap().to_owned();
                    log.lock().unwrap().push(path.clone());
                    let Some((status, body)) = answer(&path) else { std::future::pending().await };
                    let answer =
                        format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                    let _gone = stream.write_all(answer.as_bytes()).await;
                }
            });
        }
    });
    (port, asked)
}

fn start(port: u16) -> (Reader, mpsc::Receiver<HcObservation>) {
    let netns = Some(Arc::new(File::open("/proc/self/ns/net").unwrap()));
    let target = Target { pod: "ns/pod".into(), netns, address: Address::default() };
    let limits = Limits { time: Duration::from_millis(300), body: 1000 };
    let intervals = Intervals { slow: Duration::from_secs(5), fast: Duration::from_millis(20) };
    let settings = Settings { port, limits, intervals, ..Settings::default() };
    let (sender, observations) = mpsc::channel(16);
    (Reader::start("uid".into(), target, Dialler::new().unwrap(), settings, sender), observations)
}

async fn next(observations: &mut mpsc::Receiver<HcObservation>) -> Observation {
    let told = timeout(Duration::from_secs(10), observations.recv()).await.unwrap().unwrap();
    assert_eq!(&*told.uid, "uid");
    told.observation
}

/// Exercises an hc with `/state`, so that its instant and its reason come through.
#[tokio::test]
async fn by_state() {
    let (port, asked) = hc(|_| {
        Some((
            200,
            r#"{"state":"DRAINING","since":"2026-01-30T07:16:46.981444Z","active":2,"reason":"sigterm"}"#,
        ))
    })
    .await;
    let (reader, mut observations) = start(port);
    let told = next(&mut observations).await;
    assert_eq!((told.source, told.what), (Source::State, What::Since(HcState::Draining)));
    assert_eq!((told.active, told.reason.as_deref()), (Some(2), Some("sigterm")));
    assert_eq!(told.at_us % 1_000_000, 981_444);
    reader.remote().alarm();
    next(&mut observations).await;
    assert_eq!(*asked.lock().unwrap_or_else(PoisonError::into_inner), ["/state", "/state"]);
}

/// Exercises an hc without `/state`, so that its codes are asked for, and `/state` is not each time.
#[tokio::test]
async fn by_codes() {
    for page in [(404, ""), (200, "<html>ok</html>")] {
        let (port, asked) = if page.0 == 404 {
            hc(|path| match path {
                "/health_check.html" => Some((503, "")),
                "/health" => Some((200, "")),
                _ => Some((404, "")),
            })
            .await
        } else {
            hc(|path| match path {
                "/health_check.html" => Some((503, "")),
                "/health" => Some((200, "")),
                _ => Some((200, "<html>ok</html>")),
            })
            .await
        };
        let (reader, mut observations) = start(port);
        reader.remote().pace(Pace::Fast);
        for _ in 0..3 {
            let told = next(&mut observations).await;
            let What::Holds { states, asked_us } = told.what else { panic!("{told:?}") };
            assert_eq!((told.source, states), (Source::Codes, States::only(HcState::Closing)));
            assert!(asked_us <= told.at_us && told.at_us == told.seen.utc_us);
        }
        let asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(asked.iter().filter(|path| *path == "/state").count(), 1);
    }
}

/// Exercises what is no hc, a state nobody knows and an hc that hangs, so that each is silence with its reason.
#[tokio::test]
async fn silence_has_a_reason() {
    let cases: [(Script, &str); 3] = [
        (|_| Some((404, "")), "is this hc's port?"),
        (|_| Some((200, r#"{"state":"MAYBE"}"#)), "MAYBE"),
        (|_| None, "within 300 ms"),
    ];
    for (answer, word) in cases {
        let (port, _) = hc(answer).await;
        let (_reader, mut observations) = start(port);
        let told = next(&mut observations).await;
        let reason = told.reason.unwrap();
        assert!(told.what == What::Silent && reason.contains(word) && reason.contains("ns/pod"), "{reason}");
    }
}

/// Exercises a clock that is ahead, so that no instant of the future is told.
#[tokio::test]
async fn an_instant_in_the_future() {
    let (port, _) = hc(|_| Some((200, r#"{"state":"OPEN","since":"2199-01-01T00:00:00Z"}"#))).await;
    let (_reader, mut observations) = start(port);
    let told = next(&mut observations).await;
    assert!(
        matches!(told.what, What::Holds { states, .. } if states == States::only(HcState::Open)),
        "{told:?}"
    );
}
