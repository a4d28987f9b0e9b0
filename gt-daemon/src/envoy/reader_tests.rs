use std::{
    fs::File,
    sync::{Mutex, PoisonError},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};

use super::*;
use crate::{dial::Address, poll::Pace};

const GAUGES: &str = "http.in.downstream_rq_active: 1\ncluster.a.upstream_rq_active: 1\nserver.uptime: 100\n";
const COUNTERS: &str =
    "http.in.downstream_cx_destroy_remote_active_rq: 0\nhttp.in.downstream_rq_rx_reset: 0\n";

/// Status and body for a path; `None` to hang.
type Script = fn(&str) -> Option<(u16, String)>;

/// What a scripted Envoy was asked.
type Asked = Arc<Mutex<Vec<String>>>;

fn asked(asked: &Asked) -> Vec<String> {
    asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A server that gives each question to `answer`, which gives status and body, or `None` to hang.
async fn envoy(answer: Script) -> (u16, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Asked::default();
    let log = Arc::clone(&asked);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(stream, answer, Arc::clone(&log)));
        }
    });
    (port, asked)
}

async fn serve(mut stream: TcpStream, answer: Script, log: Asked) {
    let mut head = vec![0; 8192];
    while let Ok(read @ 1..) = stream.read(&mut head).await {
        let text = String::from_utf8_lossy(&head[..read]).into_owned();
        let path = text.split(' ').nth(1).unwrap().to_owned();
        log.lock().unwrap().push(path.clone());
        let Some((status, body)) = answer(&path) else { std::future::pending().await };
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let _gone = stream.write_all(answer.as_bytes()).await;
    }
}

fn ordinary(path: &str) -> Option<(u16, String)> {
    Some((200, if path.contains("type=Gauges") { GAUGES } else { COUNTERS }.to_owned()))
}

/// A reader of these ports; a third is another process than Envoy, as in Istio.
fn start(ports: &[(u16, Form)], limit_ms: u64) -> (Reader, mpsc::Receiver<Report>) {
    let endpoint = |(index, (port, form)): (usize, &(u16, Form))| Endpoint {
        port: *port,
        form: *form,
        proxied: index == 2,
    };
    let endpoints = ports.iter().enumerate().map(endpoint).collect();
    let limits = Limits { time: Duration::from_millis(limit_ms), body: 1 << 20 };
    let settings = Settings { endpoints, limits, ..Settings::default() };
    let netns = Some(Arc::new(File::open("/proc/self/ns/net").unwrap()));
    let target = Target { pod: "ns/pod".into(), netns, address: Address::default() };
    let (sender, reports) = mpsc::channel(16);
    (Reader::start("uid".into(), target, Dialler::new().unwrap(), settings, sender), reports)
}

async fn next(reports: &mut mpsc::Receiver<Report>) -> Report {
    timeout(Duration::from_secs(10), reports.recv()).await.unwrap().unwrap()
}

/// Exercises the course of looks: all is learned at once, an alarm is answered at once with counters, and a
/// draining pod is asked for gauges often.
#[tokio::test]
async fn learns_then_asks_for_little() {
    let (port, asked_for) = envoy(ordinary).await;
    let (reader, mut reports) = start(&[(port, Form::Text)], 2_000);
    let first = next(&mut reports).await;
    assert_eq!(&*first.uid, "uid");
    let sample = first.outcome.unwrap();
    assert_eq!(sample.gauges.values.active(), Some(2));
    assert!(sample.gauges.ended <= sample.counters.unwrap().begun);
    assert!(asked(&asked_for).iter().all(|path| !path.contains("usedonly")));

    let begun = Instant::now();
    reader.remote().alarm();
    let second = next(&mut reports).await.outcome.unwrap();
    assert!(second.counters.is_some() && begun.elapsed() < Duration::from_secs(1));
    reader.remote().pace(Pace::Fast);
    let mut with_counters = 0;
    for _ in 0..8 {
        with_counters += usize::from(next(&mut reports).await.outcome.unwrap().counters.is_some());
    }
    assert!(begun.elapsed() < Duration::from_secs(4) && (1..=3).contains(&with_counters), "{with_counters}");
    let asked = asked(&asked_for);
    assert_eq!(asked.iter().filter(|path| !path.contains("usedonly")).count(), 2);
    assert_eq!(reader.history().len(), 10);
    assert_eq!(reader.unreported(), 0);
}

/// A port where nobody listens until the socket does, and that is nobody else's as long as the socket is there.
fn closed() -> (u16, TcpSocket) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    (socket.local_addr().unwrap().port(), socket)
}

/// Exercises closed ports before one that tells, so that they cost no look, and both kinds come at once there.
#[tokio::test]
async fn another_port_is_tried() {
    let (port, _) = envoy(|_| {
        Some((200, "envoy_http_downstream_rq_active{envoy_http_conn_manager_prefix=\"in\"} 3\nenvoy_server_live{} 1\n".to_owned()))
    })
    .await;
    let ((first, _one), (second, _other)) = (closed(), closed());
    let ports = [(first, Form::Text), (second, Form::Text), (port, Form::Prometheus)];
    let (_reader, mut reports) = start(&ports, 2_000);
    let sample = next(&mut reports).await.outcome.unwrap();
    assert_eq!(sample.gauges.values.downstream_rq_active, Some(3));
    assert_eq!(sample.gauges.values.upstream_rq_active, None);
    assert_eq!(sample.counters.unwrap().values, Counters::default());
}

/// Exercises an Envoy that does not listen yet, so that all of its ports together are one failure, told by the first, and it is
/// seen soon after it listens, though nobody is in a hurry. A port that Istio's agent answers meanwhile changes none of that.
#[tokio::test]
async fn one_that_is_late_is_seen_soon() {
    for agent in [None, Some(envoy(|_| Some((200, "istio_agent_up 1\n".to_owned()))).await.0)] {
        let ((late, socket), (second, _other), (third, _another)) = (closed(), closed(), closed());
        let prometheus = |port| (port, Form::Prometheus);
        let ports = [(late, Form::Text), prometheus(second), prometheus(agent.unwrap_or(third))];
        let (reader, mut reports) = start(&ports, 2_000);
        let begun = Instant::now();
        for _ in 0..3 {
            let refused = next(&mut reports).await.outcome.unwrap_err();
            assert!(matches!(&refused, ReadError::Call(error) if error.is_refused()), "{refused}");
            assert!(refused.to_string().contains(&format!("port {late} of pod ns/pod")), "{refused}");
        }
        // 400 and 800 ms.
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        let listener = socket.listen(8).unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, ordinary, Asked::default()));
            }
        });
        reader.remote().alarm();
        let sample = next(&mut reports).await.outcome.unwrap();
        assert_eq!(sample.gauges.values.active(), Some(2));
        assert!(
            begun.elapsed() < Duration::from_secs(4),
            "an alarm waits for no pause: {:?}",
            begun.elapsed()
        );
    }
}

/// Exercises answers that tell nothing, so that each is an error with its reason and none a zero.
#[tokio::test]
async fn errors_are_no_zeros() {
    let cases: [(Script, &str); 5] = [
        (|_| Some((404, String::new())), "404"),
        (|_| Some((200, "<html>\n".to_owned())), "no list of Envoy's stats"),
        (|_| Some((200, String::new())), "proxyStatsMatcher"),
        (|_| Some((200, "x".repeat(2 << 20))), "longer than"),
        (|_| None, "within 300 ms"),
    ];
    for (answer, word) in cases {
        let (port, _) = envoy(answer).await;
        let (reader, mut reports) = start(&[(port, Form::Text)], 300);
        let error = next(&mut reports).await.outcome.unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("ns/pod"), "{error}");
        assert_eq!(reader.last(), None);
    }
}

/// Exercises a consumer that does not read, so that looks go on and what is dropped is counted.
#[tokio::test]
async fn nobody_reads_the_reports() {
    let (port, _) = envoy(ordinary).await;
    let (reader, mut reports) = start(&[(port, Form::Text)], 2_000);
    reader.remote().pace(Pace::Fast);
    let all_read = async {
        while reader.unreported() < 2 {
            reader.remote().alarm();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(20), all_read).await.unwrap();
    assert!(reader.history().len() >= 17);
    assert!(reports.try_recv().is_ok());
}
