//! How much is asked of a server, and how much of it is taken, whatever it answers.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::{
    super::client::Limits,
    begin, fault, hasty, names, selection,
    server::{Answer, Piece, Server},
    until_down, until_up_with,
};

/// Exercises an answer without end and without a line end, as a list and as a watch, and a list of line ends, so that each is given
/// up after a bounded number of bytes.
#[tokio::test]
async fn endless_lines() {
    let manner = || {
        let mut manner = hasty();
        manner.limits.line = 1 << 20;
        manner.timing.list = Duration::from_secs(10);
        manner
    };
    // What the kernel and the HTTP libraries hold on both sides comes on top.
    const MOST: u64 = (1 << 20) + (12 << 20);

    for endless in [Piece::Endless, Piece::EndlessLines] {
        let server = Server::start(move |asked, n| match (n, asked.is_watch()) {
            (0, _) => Answer::file(422, "no-streaming.json"),
            (1, _) => Answer::body(vec![endless.clone()]),
            (_, false) => Answer::file(200, "list-page-2.json"),
            (_, true) => Answer::silent(),
        });
        let mut api = begin(server.address, selection(), manner());
        let down = until_down(&mut api).await;
        assert!(fault(&down).contains("longer than 1048576 bytes"), "{}", fault(&down));
        until_up_with(&mut api, &["igw-2"]).await;
        assert!(server.endless() < MOST, "{} bytes", server.endless());
    }

    let server = Server::start(|_, n| match n {
        0 => Answer::file(200, "streaming.jsonl").then(Piece::Endless),
        _ => Answer::open("later.jsonl"),
    });
    let mut api = begin(server.address, selection(), manner());
    let down = until_down(&mut api).await;
    assert_eq!(names(&down), ["igw-1", "igw-2"]);
    assert!(fault(&down).contains("longer than 1048576 bytes"), "{}", fault(&down));
    until_up_with(&mut api, &["igw-4"]).await;
    assert!(server.endless() < MOST, "{} bytes", server.endless());
}

/// Exercises a server that fails for ever, so that the pauses grow: 20, 40, 80, 160, then 200 ms and more with
/// jitter.
#[tokio::test]
async fn pauses_grow() {
    let server = Server::start(|_, _| Answer::text(500, "no"));
    let mut api = begin(server.address, selection(), hasty());
    until_down(&mut api).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let asked = server.asked();
    assert!((4..=11).contains(&asked.len()), "{} requests", asked.len());
    let first = asked[1].at - asked[0].at;
    let late = asked[asked.len() - 1].at - asked[asked.len() - 2].at;
    assert!(late > first && late >= Duration::from_millis(160), "{first:?}, {late:?}");
}

/// Exercises a server that closes every connection, so that it is not connected to without pause.
#[tokio::test]
async fn closed_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let closer = tokio::spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        loop {
            drop(listener.accept().await);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut api = begin(address, selection(), hasty());
    until_down(&mut api).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    closer.abort();
    let count = count.load(Ordering::Relaxed);
    assert!((3..=24).contains(&count), "{count} connections");
}

/// Exercises servers that end each answer at once and without a fault, which kube resumes without a pause, so
/// that the limit on requests holds; the pods stay known and the API counts as up.
#[tokio::test]
async fn watches_that_end_at_once() {
    let mut manner = hasty();
    manner.limits = Limits { requests: (5, Duration::from_millis(500)), ..manner.limits };
    for (name, whole) in [("after a streamed list", true), ("after an ordinary list", false)] {
        let server = Server::start(move |asked, _| match (asked.is_streaming(), asked.is_watch()) {
            (true, _) if whole => Answer::file(200, "streaming.jsonl"),
            (true, _) => Answer::text(200, ""),
            (false, true) => Answer::text(200, ""),
            (false, false) => Answer::file(200, "list-page-2.json"),
        });
        let mut api = begin(server.address, selection(), manner);
        let expected: &[&str] = if whole { &["igw-1", "igw-2"] } else { &["igw-2"] };
        until_up_with(&mut api, expected).await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        until_up_with(&mut api, expected).await;
        let count = server.asked().len();
        assert!((8..=25).contains(&count), "{name}: {count} requests");
    }
}
