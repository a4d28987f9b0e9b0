use std::{fs::File, sync::atomic::Ordering};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::dial::Address;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const LIMITS: Limits = Limits { time: Duration::from_millis(400), body: 1000 };

/// A server that answers each connection by `serve`; gives the client that asks it.
async fn client<F, T>(serve: F) -> Client
where
    F: Fn(usize, TcpStream) -> T + Send + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(number, stream));
        }
    });
    let netns = Some(Arc::new(File::open("/proc/self/ns/net").unwrap()));
    let target = Target { pod: "ns/pod".into(), netns, address: Address::default() };
    Client::new(Dialler::new().unwrap(), target, port)
}

/// Reads one question.
async fn question(stream: &mut TcpStream) -> Option<String> {
    let mut head = vec![0; 4096];
    let read = stream.read(&mut head).await.ok().filter(|read| *read > 0)?;
    Some(String::from_utf8_lossy(&head[..read]).into_owned())
}

async fn say(stream: &mut TcpStream, bytes: &[u8]) {
    let _gone = stream.write_all(bytes).await;
}

/// Answers every question with the same bytes, and stays.
async fn client_of(answer: &'static [u8]) -> Client {
    client(move |_, mut stream| async move {
        while question(&mut stream).await.is_some() {
            say(&mut stream, answer).await;
        }
    })
    .await
}

fn failure(outcome: Result<Answer, CallError>) -> Failure {
    match outcome {
        Err(CallError::Call { failure, .. }) => failure,
        other => panic!("{other:?}"),
    }
}

/// Exercises a peer that keeps the connection, so that it is used again and the instants enclose the call.
#[tokio::test]
async fn one_connection_for_many_calls() {
    let mut client = client_of(OK).await;
    let before = Moment::now();
    let first = client.get("/stats?filter=x", LIMITS).await.unwrap();
    let second = client.get("/stats", LIMITS).await.unwrap();
    assert_eq!((first.status.as_u16(), &first.body[..]), (200, &b"ok"[..]));
    assert_eq!((first.connection, second.connection), (1, 1));
    assert!(before <= first.begun && first.begun <= first.ended && first.ended <= second.begun);
}

/// Exercises peers that close after each answer, told and untold, so that the next call has a new connection.
#[tokio::test]
async fn closed_connections_are_made_anew() {
    for answer in [OK, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"] {
        let mut client = client(move |_, mut stream| async move {
            question(&mut stream).await;
            say(&mut stream, answer).await;
        })
        .await;
        for number in 1..4 {
            assert_eq!(client.get("/", LIMITS).await.unwrap().connection, number);
        }
    }
}

/// Exercises a peer that closes a kept connection just when it is asked, so that one call hides it.
#[tokio::test]
async fn a_kept_connection_that_dies_is_replaced() {
    let mut client = client(|number, mut stream| async move {
        question(&mut stream).await;
        say(&mut stream, OK).await;
        question(&mut stream).await;
        if number > 0 {
            say(&mut stream, OK).await;
        }
    })
    .await;
    assert_eq!(client.get("/", LIMITS).await.unwrap().connection, 1);
    assert_eq!(client.get("/", LIMITS).await.unwrap().connection, 2);
}

/// Exercises answers that never end, each in its own way, so that the limit ends them all.
#[tokio::test]
async fn endless_answers_end_at_the_limit() {
    let endless: [(&'static [u8], &'static [u8]); 5] = [
        (b"", b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ];
    for (head, drop) in endless {
        let mut client = client(move |_, mut stream| async move {
            question(&mut stream).await;
            say(&mut stream, head).await;
            while stream.write_all(drop).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
        let begun = std::time::Instant::now();
        let failed = failure(client.get("/", LIMITS).await);
        assert!(matches!(failed, Failure::Slow(_)), "{failed}");
        assert!(begun.elapsed() < LIMITS.time * 3);
        assert!(client.connection.is_none());
    }
}

/// Exercises floods, so that size ends them and not memory.
#[tokio::test]
async fn floods_are_cut_off() {
    let floods: [(&'static [u8], &'static [u8]); 3] = [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n", &[b'x'; 500]),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"5\r\nabcde\r\n"),
        (b"HTTP/1.1 200 OK\r\nx: ", &[b'x'; 500]),
    ];
    for (index, (head, more)) in floods.into_iter().enumerate() {
        let mut client = client(move |_, mut stream| async move {
            question(&mut stream).await;
            say(&mut stream, head).await;
            while stream.write_all(more).await.is_ok() {}
        })
        .await;
        let limits = Limits { time: Duration::from_secs(20), ..LIMITS };
        let failed = failure(client.get("/", limits).await);
        assert!(matches!(failed, Failure::Long(1000)) == (index < 2), "{failed}");
        assert!(matches!(failed, Failure::Protocol(_)) == (index == 2), "{failed}");
    }
}

/// Exercises answers that are cut off or no HTTP, so that half an answer is never a whole one.
#[tokio::test]
async fn broken_answers_are_errors() {
    let broken: [&'static [u8]; 4] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nonly this",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x16\x03\x01\x02\x00",
    ];
    for answer in broken {
        let mut client = client(move |_, mut stream| async move {
            question(&mut stream).await;
            say(&mut stream, answer).await;
        })
        .await;
        let failed = failure(client.get("/", LIMITS).await);
        assert!(matches!(failed, Failure::Protocol(_)), "{failed}");
    }
}

/// Exercises answers that say more than they announced, or two lengths, so that what is left over is never taken for the next answer.
#[tokio::test]
async fn lies_about_the_length() {
    let mut client = client_of(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok, and more").await;
    for _ in 0..3 {
        match client.get("/", LIMITS).await {
            Ok(answer) => assert_eq!(&answer.body[..], b"ok"),
            Err(error) => assert!(error.to_string().contains("no valid HTTP answer"), "{error}"),
        }
    }
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nok"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nok",
    ] {
        let failed = failure(client_of(answer).await.get("/", LIMITS).await);
        assert!(matches!(failed, Failure::Protocol(_)), "{failed}");
    }
}

/// Exercises heads of many short fields without end, so that size ends them.
#[tokio::test]
async fn a_flood_of_fields() {
    let mut client = client(|_, mut stream| async move {
        question(&mut stream).await;
        say(&mut stream, b"HTTP/1.1 200 OK\r\n").await;
        while stream.write_all(b"a: b\r\n").await.is_ok() {}
    })
    .await;
    let limits = Limits { time: Duration::from_secs(20), ..LIMITS };
    let failed = failure(client.get("/", limits).await);
    assert!(matches!(failed, Failure::Protocol(_)), "{failed}");
}

/// Exercises a late answer, so that it is never taken for the answer to the next question.
#[tokio::test]
async fn a_late_answer_is_not_the_next_one() {
    let mut client = client(|number, mut stream| async move {
        question(&mut stream).await;
        if number == 0 {
            tokio::time::sleep(LIMITS.time * 2).await;
            say(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate").await;
        }
        say(&mut stream, OK).await;
    })
    .await;
    assert!(client.get("/", LIMITS).await.is_err());
    let next = client.get("/", LIMITS).await.unwrap();
    assert_eq!((next.connection, &next.body[..]), (2, &b"ok"[..]));
}

/// Exercises the message, so that it says which pod, port and path, and spares the query.
#[tokio::test]
async fn a_message_names_the_place() {
    let mut client = client_of(b"no\r\n\r\n").await;
    let port = client.port();
    let message = client.get("/stats?filter=abc", LIMITS).await.unwrap_err().to_string();
    assert!(message.starts_with(&format!("GET /stats on port {port} of pod ns/pod: ")), "{message}");
}

/// Exercises many pods of which some hang, so that those delay nobody else.
#[tokio::test]
async fn a_hung_pod_delays_no_other() {
    let served = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for index in 0..20 {
        let mut client = if index % 2 == 0 {
            client_of(OK).await
        } else {
            client(|_, stream| async move {
                let _held = stream;
                std::future::pending::<()>().await;
            })
            .await
        };
        let served = Arc::clone(&served);
        tasks.push(tokio::spawn(async move {
            let begun = std::time::Instant::now();
            let outcome = client.get("/", Limits { time: Duration::from_secs(2), ..LIMITS }).await;
            if index % 2 == 0 {
                outcome.unwrap();
                assert!(begun.elapsed() < Duration::from_millis(1500));
                served.fetch_add(1, Ordering::Relaxed);
            } else {
                assert!(matches!(failure(outcome), Failure::Slow(_)));
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(served.load(Ordering::Relaxed), 10);
}
