//! LBs that are scripted: good ones, and ones that hang, lie, break off or never end.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;
use crate::lb::word::Serving;

const CSV: &str = "# pxname,svname,status,\nigw,node-1,UP 1/2,\n";

/// What one says to whoever connects.
#[derive(Clone)]
enum Script {
    /// Says this and closes.
    Say(String),
    /// Says this and stays silent.
    Hang(String),
    /// Says this again and again.
    Endless(String),
    /// Says this, and then that again and again, with a pause after each.
    Drips(String, &'static [u8], Duration),
}

fn http(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The outcome of one question, by `way` (a format with the address in it).
async fn ask(way: &str, script: Script) -> Result<Vec<Row>, String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut question = vec![0; 4096];
        let length = stream.read(&mut question).await.unwrap_or_default();
        match script {
            Script::Say(text) => stream.write_all(text.as_bytes()).await.unwrap(),
            Script::Hang(text) => {
                stream.write_all(text.as_bytes()).await.unwrap();
                std::future::pending::<()>().await;
            }
            Script::Endless(text) => while stream.write_all(text.as_bytes()).await.is_ok() {},
            Script::Drips(head, drop, pause) => {
                stream.write_all(head.as_bytes()).await.unwrap();
                while stream.write_all(drop).await.is_ok() {
                    tokio::time::sleep(pause).await;
                }
            }
        }
        String::from_utf8_lossy(&question[..length]).into_owned()
    });
    let source: Source = way.replace("ADDRESS", &address).parse().unwrap();
    let limits = Limits { time: Duration::from_millis(300), body: 10_000 };
    let asked = call::ask(&source, limits).await;
    if let Ok(question) = tokio::time::timeout(Duration::from_millis(50), server).await {
        let question = question.unwrap();
        assert!(question == "show stat\n" || question.starts_with("GET /s;csv HTTP/1.1\r\n"), "{question}");
    }
    asked.map(|answer| answer.rows).map_err(|failure| failure.to_string())
}

const HTTP: &str = "http://ADDRESS/s;csv";
const TCP: &str = "tcp:ADDRESS";

/// Exercises whole answers by both ways, so that the row is there.
#[tokio::test]
async fn good_ones() {
    let rows = ask(HTTP, Script::Say(http("200 OK", CSV))).await.unwrap();
    assert_eq!((rows[0].name().as_str(), rows[0].serving), ("igw/node-1", Some(Serving::Up)));
    assert_eq!(ask(TCP, Script::Say(format!("{CSV}\n"))).await.unwrap(), rows);
    let chunked =
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{CSV}\r\n0\r\n\r\n", CSV.len());
    assert_eq!(ask(HTTP, Script::Say(chunked)).await.unwrap(), rows);
}

/// Exercises what goes wrong, so that each ends within its limits, tells what it was, and never that a server is DOWN.
#[tokio::test]
async fn bad_ones() {
    let long = "x".repeat(600);
    let cut = format!("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{CSV}");
    let chunk = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{CSV}\r\n", CSV.len());
    let endless = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
    for (way, script, word) in [
        (HTTP, Script::Hang(String::new()), "within 300 ms"),
        (HTTP, Script::Hang(cut.clone()), "within 300 ms"),
        (HTTP, Script::Say(cut), "no valid HTTP answer"),
        (HTTP, Script::Say(chunk), "no valid HTTP answer"),
        (HTTP, Script::Say(String::new()), "no valid HTTP answer"),
        (HTTP, Script::Endless(format!("{endless}258\r\n{long}\r\n")), "no valid HTTP answer"),
        (HTTP, Script::Say(http("401 Unauthorized", "")), "USER:PASSWORD"),
        (HTTP, Script::Say(http("404 Not Found", CSV)), "404"),
        (HTTP, Script::Say(http("200 OK", "<!DOCTYPE html>")), ";csv"),
        (HTTP, Script::Say(http("200 OK", &long.repeat(20))), "longer than 10000 bytes"),
        (HTTP, Script::Say(http("200 OK", CSV.trim_end())), "cut off"),
        (HTTP, Script::Say(http("200 OK", "# pxname,svname,status,\nigw,node-1,DOWN\n")), "cannot be read"),
        (TCP, Script::Hang(format!("{CSV}\n")), "within 300 ms"),
        (TCP, Script::Say(CSV.to_owned()), "cut off"),
        (TCP, Script::Say("Unknown command: 'show stat'\n".to_owned()), "level user"),
        (TCP, Script::Endless(long), "longer than 10000 bytes"),
    ] {
        let begun = Instant::now();
        let error = ask(way, script).await.unwrap_err();
        assert!(error.contains(word), "{word}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{word}");
    }
}

/// Exercises answers and heads that never end, by the drop and as floods, and what is no HTTP at all, so that time or size ends each
/// and none tells anything.
#[tokio::test]
async fn endless_ones() {
    let ok = || "HTTP/1.1 200 OK\r\n".to_owned();
    let chunks = || "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
    let short = || format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{CSV}");
    let (drop, flood) = (Duration::from_millis(10), Duration::ZERO);
    let many = |what: &[u8]| -> &'static [u8] { what.repeat(200).leak() };
    for (way, script, word) in [
        (HTTP, Script::Drips(ok(), b"a: b\r\n", drop), "within 300 ms"),
        (HTTP, Script::Drips(ok(), many(b"a: b\r\n"), flood), "no valid HTTP answer"),
        (HTTP, Script::Drips(format!("{}x: ", ok()), &[b'x'; 500], flood), "no valid HTTP answer"),
        (HTTP, Script::Drips(String::new(), b"HTTP/1.1 100 Continue\r\n\r\n", drop), "within 300 ms"),
        (HTTP, Script::Drips(chunks(), b"1\r\nx\r\n", drop), "within 300 ms"),
        (HTTP, Script::Drips(chunks(), many(b"5\r\nabcde\r\n"), flood), "longer than 10000 bytes"),
        (HTTP, Script::Say("SSH-2.0-OpenSSH_9.2\r\n".to_owned()), "no valid HTTP answer"),
        (HTTP, Script::Say("\u{16}\u{3}\u{1}\u{2}\0".to_owned()), "no valid HTTP answer"),
        (
            HTTP,
            Script::Say("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n".to_owned()),
            "no valid HTTP answer",
        ),
        (HTTP, Script::Say(short()), "cut off"),
        (TCP, Script::Drips(CSV.to_owned(), b"x", drop), "within 300 ms"),
        (TCP, Script::Drips(CSV.to_owned(), &[b'x'; 500], flood), "longer than 10000 bytes"),
        (TCP, Script::Drips(String::new(), many(b"\n"), flood), "longer than 10000 bytes"),
        (TCP, Script::Say(String::new()), "cut off"),
    ] {
        let begun = Instant::now();
        let error = ask(way, script).await.unwrap_err();
        assert!(error.contains(word), "{word}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{word}");
    }
}

/// Exercises a reader over several looks and a refusal, so that both are told under its name, without a password.
#[tokio::test]
async fn a_reader() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut question = vec![0; 4096];
            let length = stream.read(&mut question).await.unwrap();
            assert!(String::from_utf8_lossy(&question[..length]).contains("authorization: Basic YTpi"));
            stream.write_all(http("200 OK", CSV).as_bytes()).await.unwrap();
        }
    });
    let source: Source = format!("http://a:b@{address}/s;csv").parse().unwrap();
    let (sender, mut heard) = mpsc::channel(8);
    let meter = Meter::default();
    let reader = Reader::start(source, &Settings::default(), meter.clone(), sender);
    let mut told = Vec::new();
    for _ in 0..3 {
        reader.alarm();
        match heard.recv().await.unwrap() {
            Heard::Look(report) => {
                assert_eq!(&*report.lb, address.to_string());
                told.push(report.outcome.map(|look| look.rows.len()));
            }
            Heard::Note(note) => panic!("{note:?}"),
        }
    }
    server.await.unwrap();
    assert_eq!(told[..2], [Ok(1), Ok(1)]);
    assert!(told[2].as_ref().unwrap_err().contains("cannot connect"), "{told:?}");
}
