use std::{path::Path, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
    time::{sleep, timeout},
};

use super::{stand_in::StandIn, *};
use crate::{
    api::{hub::ROOM, message::Message},
    drain::{
        fact::{Fact, Timed},
        record::Record,
    },
};

const PATIENCE: Duration = Duration::from_secs(20);

async fn next(messages: &mut Messages) -> Message {
    timeout(PATIENCE, messages.next()).await.expect("nothing came").expect("the stream ended")
}

fn way(socket: &Path) -> Way {
    Way::One(Door::Socket(socket.to_owned()))
}

fn wanted(pods: &[&str]) -> Wanted {
    Wanted { pods: pods.iter().map(|pod| (*pod).to_owned()).collect(), ..Wanted::default() }
}

fn lost(messages: u64) -> Message {
    Message::Lost { messages }
}

/// The names of the pods that a stream begins with, after the daemon's node.
async fn beginning(messages: &mut Messages, pods: usize) -> (Option<String>, Vec<String>) {
    let Message::Hello { node, .. } = next(messages).await else { panic!("no hello") };
    let mut names = Vec::new();
    for _ in 0..pods {
        let Message::Pod(status) = next(messages).await else { panic!("no pod") };
        names.push(status.pod);
    }
    (node, names)
}

/// Exercises a socket with two pods, of which one is asked for by a part of its name, so that it is shown and the other is not.
#[tokio::test]
async fn one_pod_of_two() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("gt.sock");
    let daemon = StandIn::new("n1", &[("edge", "igw-1"), ("edge", "egress-1")], 4).at(&socket);
    let mut messages = connect(&way(&socket), &wanted(&["igw"])).await.unwrap();
    let begun = beginning(&mut messages, 1).await;
    assert_eq!(begun, (Some("n1".to_owned()), vec!["igw-1".to_owned()]));
    daemon.publish("edge", "egress-1", &lost(1));
    daemon.publish("edge", "igw-1", &lost(2));
    assert_eq!(next(&mut messages).await, lost(2));
    let error = connect(&way(&socket), &wanted(&["edge/igw-2"])).await.unwrap_err().to_string();
    assert!(error.contains("\"edge/igw-2\"") && error.contains("there are edge/igw-1"), "{error}");
}

/// Exercises a daemon that ends, and another that begins in its place, so that the gap is told and the pod is followed on.
#[tokio::test]
async fn a_daemon_that_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("gt.sock");
    let daemon = StandIn::new("n1", &[("edge", "igw-1")], 4).at(&socket);
    let mut messages = connect(&way(&socket), &wanted(&["igw"])).await.unwrap();
    beginning(&mut messages, 1).await;
    drop(daemon);
    let gap = next(&mut messages).await;
    assert!(matches!(&gap, Message::Gap { node, .. } if node.as_deref() == Some("n1")), "{gap:?}");
    sleep(Duration::from_millis(500)).await;
    // Its pods are not read yet: the stream waits for them.
    let daemon = StandIn::new("n1", &[], 4).at(&socket);
    beginning(&mut messages, 0).await;
    daemon.publish("edge", "igw-1", &lost(7));
    assert_eq!(next(&mut messages).await, lost(7));
}

/// Exercises more streams than there may be, so that the last one is refused with the remedy, and one that ends makes room.
#[tokio::test]
async fn at_most_so_many() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("gt.sock");
    let daemon = StandIn::new("n1", &[], 1).at(&socket);
    let first = connect(&way(&socket), &wanted(&[])).await.unwrap();
    let error = connect(&way(&socket), &wanted(&[])).await.unwrap_err().to_string();
    assert!(error.contains("503") && error.contains("--streams"), "{error}");
    drop(first);
    let again = timeout(PATIENCE, async {
        loop {
            daemon.tick();
            if let Ok(messages) = connect(&way(&socket), &wanted(&[])).await {
                break messages;
            }
            sleep(Duration::from_millis(20)).await;
        }
    });
    beginning(&mut again.await.unwrap(), 0).await;
}

/// Exercises a reader on a real socket that does not read for a while, beside one that does, so that the first is told how much it
/// lost, the second loses nothing, and all that is not lost comes in order.
#[tokio::test]
async fn a_slow_reader() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("gt.sock");
    let daemon = StandIn::new("n1", &[], 4).at(&socket);
    let mut slow = UnixStream::connect(&socket).await.unwrap();
    slow.write_all(b"GET /v1/stream HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut quick = connect(&way(&socket), &wanted(&[])).await.unwrap();
    beginning(&mut quick, 0).await;
    let numbered = |number: u64| Message::Hello {
        node: None,
        version: format!("{number} {}", "x".repeat(1000)),
        now: String::new(),
    };
    let most = ROOM as u64 + 3000;
    for number in 0..most {
        daemon.publish("edge", "igw", &numbered(number));
        assert_eq!(next(&mut quick).await, numbered(number));
    }
    daemon.publish("edge", "igw", &lost(0));
    let mut text = Vec::new();
    let mut block = [0; 1 << 16];
    while !String::from_utf8_lossy(&text).contains("\"lost\"") {
        let read = timeout(PATIENCE, slow.read(&mut block)).await.expect("no loss is told").unwrap();
        assert!(read > 0, "the stream ended");
        text.extend_from_slice(block.get(..read).unwrap());
        daemon.tick();
    }
    let text = String::from_utf8(text).unwrap();
    let numbers: Vec<u64> = text
        .match_indices("\"version\":\"")
        .filter_map(|(at, found)| text[at + found.len()..].split(' ').next()?.parse().ok())
        .collect();
    let expected: Vec<_> = (0..numbers.len() as u64).collect();
    assert_eq!(numbers, expected);
    let told = text.split("\"messages\":").nth(1).and_then(|rest| rest.split('}').next()).unwrap();
    // The loss of this reader's own stands for all that is missing, the last message included.
    assert_eq!(told.parse::<u64>().unwrap() + numbers.len() as u64, most + 1);
}

/// Exercises the other questions, with what is there and what is not.
#[tokio::test]
async fn documents() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("gt.sock");
    let daemon = StandIn::new("n1", &[("edge", "igw-1")], 4).at(&socket);
    let deleted = Timed { ts: 7, fact: Fact::PodDeleted { grace_seconds: 1 } };
    let record = Record::of("edge", "igw-0", "u", vec![deleted.clone()], 0).unwrap();
    daemon.ledger.over(&Arc::new(record.clone()));
    let drains = way(&socket).drains().await.unwrap();
    assert_eq!((drains.len(), drains[0].id.clone(), &drains[0].summary), (1, record.id(), &record.summary()));
    let other = Record::of("edge", "igw-9", "u", vec![deleted.clone()], 0).unwrap();
    daemon.ledger.over(&Arc::new(other));
    assert_eq!(way(&socket).drain("igw-0").await.unwrap().timeline, std::slice::from_ref(&deleted));
    assert_eq!(way(&socket).drain(&record.id()).await.unwrap().listed.id, record.id());
    for (id, expected) in [("igw-", "several drains"), ("none", "gt-daemon drains")] {
        let error = way(&socket).drain(id).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let door = Door::Socket(socket);
    let whole: Whole = call::document(&door, &format!("/v1/drains/{}", record.id())).await.unwrap();
    assert_eq!(whole.timeline, [deleted]);
    for (path, expected) in [
        ("/v1/drains/none", "/v1/drains lists"),
        ("/v2/pods", "there is no /v2/pods"),
        ("/v1/stream?pod=A", "no name of a pod"),
        ("/v1/stream?x=1", "no parameter"),
    ] {
        let error = call::document::<Vec<PodStatus>>(&door, path).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Exercises a page in a browser that reaches the port by a name of its own, so that it is told nothing.
#[tokio::test]
async fn other_names_are_refused() {
    let (_daemon, port) = StandIn::new("n1", &[("edge", "igw-1")], 4).at_port().await;
    let ask = async |host: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let request = format!("GET /v1/pods HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        answer
    };
    for host in ["localhost:9465", "127.0.0.1", "[::1]:9465"] {
        assert!(ask(host).await.starts_with("HTTP/1.1 200"), "{host}");
    }
    for host in ["evil.example:9465", "localhost.evil.example"] {
        let answer = ask(host).await;
        assert!(answer.starts_with("HTTP/1.1 403") && !answer.contains("igw"), "{answer}");
    }
}

/// Exercises ways that lead nowhere, so that each error says what helps.
#[tokio::test]
async fn nobody_there() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("gt.sock");
    let message = async |choice| match Way::open(choice).await {
        Ok(way) => connect(&way, &wanted(&[])).await.unwrap_err().to_string(),
        Err(fault) => fault.to_string(),
    };
    let usual = Choice { usual_socket: socket.clone(), ..Choice::default() };
    assert!(message(usual.clone()).await.contains("--kubeconfig"));
    let named = Choice { socket: Some(socket), ..usual.clone() };
    assert!(message(named).await.contains("gt-daemon run"));
    let url = Choice { url: Some("127.0.0.1:1".to_owned()), ..usual };
    assert!(message(url).await.contains("http://127.0.0.1:9465"));
}
