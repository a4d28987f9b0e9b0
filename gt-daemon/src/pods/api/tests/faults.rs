//! Answers that are none.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;

use super::{
    begin, fault, hasty, names, selection,
    server::{Answer, Piece, Server},
    settled, until, until_down, until_up_with, up,
};
use crate::pods::source::Source as _;

/// Exercises refusals, so that each says what to do, and the API is asked again until it answers.
#[tokio::test]
async fn refusals() {
    for (status, file, expected) in
        [(401, "unauthorized.json", "credentials"), (403, "forbidden.json", "list and watch on pods")]
    {
        let server = Server::start(move |_, n| match n {
            0..3 => Answer::file(status, file),
            _ => Answer::open("streaming.jsonl"),
        });
        let mut api = begin(server.address, selection(), hasty());
        let down = until_down(&mut api).await;
        assert_eq!(names(&down), ["?"]);
        assert!(fault(&down).contains(expected), "{}", fault(&down));
        until_up_with(&mut api, &["igw-1", "igw-2"]).await;
        settled(&server, 4).await;
    }
}

/// Exercises a server that asks to wait, in its header, so that it is left alone for that long.
#[tokio::test]
async fn asked_to_wait() {
    for status in [429, 503] {
        let server = Server::start(move |_, n| match n {
            0 => Answer::text(status, "Too many requests, please try again later.\n")
                .header("retry-after", "1"),
            _ => Answer::open("streaming.jsonl"),
        });
        let mut api = begin(server.address, selection(), hasty());
        let down = until_down(&mut api).await;
        assert!(fault(&down).contains(&status.to_string()), "{}", fault(&down));
        until_up_with(&mut api, &["igw-1", "igw-2"]).await;
        let asked = server.asked();
        assert_eq!(asked.len(), 2);
        let pause = asked[1].at - asked[0].at;
        assert!((Duration::from_secs(1)..Duration::from_secs(10)).contains(&pause), "{status}: {pause:?}");
    }
}

/// Exercises answers that are no JSON, or JSON of something else, as a list and in the middle of a watch.
#[tokio::test]
async fn malformed() {
    let lists =
        ["", "<html>welcome</html>", "{\"kind\":\"PodList\",\"items\":[{]}", "{\"items\":[]}", "[]", "null"];
    for text in lists {
        let server = Server::start(move |asked, n| match n {
            0 => Answer::file(422, "no-streaming.json"),
            1 => Answer::text(200, text),
            _ if asked.is_watch() => Answer::silent(),
            _ => Answer::file(200, "list-page-2.json"),
        });
        let mut api = begin(server.address, selection(), hasty());
        let down = until_down(&mut api).await;
        assert!(fault(&down).contains(&server.address.to_string()), "{text}: {}", fault(&down));
        until_up_with(&mut api, &["igw-2"]).await;
        settled(&server, 4).await;
    }
    for line in ["nonsense\n", "{\"type\":\"ADDED\",\"object\":7}\n", "{\"type\":\"MOVED\",\"object\":{}}\n"]
    {
        let server = Server::start(move |_, n| match n {
            0 => Answer::file(200, "streaming.jsonl").then(Piece::Text(line.to_owned())).then(Piece::Hang),
            _ => Answer::open("later.jsonl"),
        });
        let mut api = begin(server.address, selection(), hasty());
        let down = until_down(&mut api).await;
        assert_eq!(names(&down), ["igw-1", "igw-2"], "{line}");
        assert!(fault(&down).contains("cannot be read"), "{line}: {}", fault(&down));
        until_up_with(&mut api, &["igw-4"]).await;
        settled(&server, 2).await;
    }
}

/// Exercises a server that takes connections and requests, and answers late or never.
#[tokio::test]
async fn silence() {
    let server = Server::start(|_, n| match n {
        0 => Answer::open("streaming.jsonl").late(Duration::from_secs(3600)),
        _ => Answer::open("streaming.jsonl"),
    });
    let mut api = begin(server.address, selection(), hasty());
    let down = until_down(&mut api).await;
    assert!(fault(&down).contains("does not answer"), "{}", fault(&down));
    until_up_with(&mut api, &["igw-1", "igw-2"]).await;
    settled(&server, 2).await;
}

/// Exercises a list that breaks off, so that the half is not told.
#[tokio::test]
async fn half_a_list() {
    let page = super::recorded("list-page-2.json");
    let half = page[..page.len() / 2].to_owned();
    let server = Server::start(move |asked, n| match n {
        0 => Answer::file(422, "no-streaming.json"),
        1 => {
            Answer::body(vec![Piece::Text(half.clone()), Piece::Wait(Duration::from_millis(20)), Piece::Cut])
        }
        _ if asked.is_watch() => Answer::silent(),
        _ => Answer::file(200, "list-page-2.json"),
    });
    let mut api = begin(server.address, selection(), hasty());
    assert_eq!(names(&until_down(&mut api).await), ["?"]);
    until_up_with(&mut api, &["igw-2"]).await;
    settled(&server, 4).await;
}

/// Exercises a server that goes and comes back, so that its pods stay known, the fault is told and the list is
/// taken anew.
#[tokio::test]
async fn gone_and_back() {
    let server = Server::start(|_, _| Answer::open("streaming.jsonl"));
    let address = server.address;
    let mut api = begin(address, selection(), hasty());
    until_up_with(&mut api, &["igw-1", "igw-2"]).await;
    drop(server);
    let down = until_down(&mut api).await;
    assert_eq!(names(&down), ["igw-1", "igw-2"]);
    assert!(fault(&down).contains("cannot reach") && fault(&down).contains("refused"), "{}", fault(&down));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let still = api.read(Instant::now());
    assert_eq!((names(&still), up(&still)), (vec!["igw-1", "igw-2"], Some(false)));
    let server = Server::start_at(address, |_, _| Answer::open("later.jsonl"));
    until_up_with(&mut api, &["igw-4"]).await;
    settled(&server, 1).await;
}

/// Exercises a port at which another protocol is spoken, so that it is told.
#[tokio::test]
async fn no_http() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let speaker = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // A client that is gone already is no fault of the test.
            let _gone = stream.write_all(b"220 mail.example ESMTP\r\n").await;
        }
    });
    let mut api = begin(address, selection(), hasty());
    let down = until(&mut api, |reading| !reading.places.is_empty()).await;
    speaker.abort();
    assert_eq!(up(&down), Some(false));
    assert!(fault(&down).contains(&address.to_string()), "{}", fault(&down));
}

/// A server that says to whoever connects a beginning, and then the same again and again, with a pause after each.
async fn raw(beginning: &'static str, again: &'static [u8], pause: Duration) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                // It ends when the client has gone.
                let _gone = stream.write_all(beginning.as_bytes()).await;
                while stream.write_all(again).await.is_ok() {
                    tokio::time::sleep(pause).await;
                }
            });
        }
    });
    address
}

/// Exercises heads that never end, by the drop and as a flood, garbage without end, and a list that is shorter than its head says, so
/// that each is given up in time, told, and no pod is known by it.
#[tokio::test]
async fn endless_heads_and_lies() {
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    const SHORT: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n\
        {\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}";
    let (drop, flood) = (Duration::from_millis(20), Duration::ZERO);
    for (beginning, again, pause) in [
        (OK, &b"a: b\r\n"[..], drop),
        (OK, &[b'x'; 4096], flood),
        (OK, b"a: b\r\n", flood),
        ("", &[0; 4096], flood),
        (SHORT, b"", drop),
        (SHORT, b" ", drop),
    ] {
        let address = raw(beginning, again, pause).await;
        let mut api = begin(address, selection(), hasty());
        let begun = Instant::now();
        let down = until(&mut api, |reading| !reading.places.is_empty() && up(reading) == Some(false)).await;
        let told = fault(&down);
        assert!(told.contains(&address.to_string()), "{told}");
        assert_eq!(names(&down), ["?"], "{told}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}: {told}", begun.elapsed());
    }
}
