use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;

/// Serves one connection: reads the request's head, writes `answer`, and closes or stays.
async fn ask(answer: Vec<u8>, stays: bool) -> Result<(StatusCode, Bytes), FetchError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 4096];
        let read = stream.read(&mut head).await.unwrap();
        assert!(read > 0);
        // The client may have turned away from a bad answer.
        let _turned_away = stream.write_all(&answer).await;
        if stays {
            std::future::pending::<()>().await;
        }
    });
    let fetch = Fetch {
        address,
        method: Method::GET,
        path: "/stats",
        limit: Duration::from_millis(500),
        max_body: 100,
    };
    let answer = fetch.run().await;
    server.abort();
    answer
}

fn http(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Exercises a plain answer, from a server that closes and from one that stays.
#[tokio::test]
async fn an_answer() {
    for stays in [false, true] {
        let (status, body) = ask(http("http.in.downstream_rq_active: 0\n"), stays).await.unwrap();
        assert_eq!((status.as_u16(), &body[..]), (200, &b"http.in.downstream_rq_active: 0\n"[..]));
    }
}

/// Exercises servers that hang, at each stage, so that none holds the caller longer than the limit.
#[tokio::test]
async fn a_hung_server() {
    let head: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhttp.in";
    for sent in [0, 10, head.len()] {
        let error = ask(head[..sent].to_vec(), true).await.unwrap_err();
        assert!(matches!(error, FetchError::TooSlow(_)), "{error}");
    }
}

/// Exercises answers that are cut off, too long or no HTTP so that none passes for an answer.
#[tokio::test]
async fn a_broken_server() {
    let cut_off = b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhttp.in.downstream_rq_active: 0\n".to_vec();
    let error = ask(cut_off, false).await.unwrap_err();
    assert!(matches!(error, FetchError::Protocol(_)), "{error}");
    let error = ask(http(&"x".repeat(101)), true).await.unwrap_err();
    assert!(matches!(error, FetchError::TooLong(100)), "{error}");
    let error = ask(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), false).await.unwrap_err();
    assert!(matches!(error, FetchError::Protocol(_)), "{error}");
    let error = ask(Vec::new(), false).await.unwrap_err();
    assert!(matches!(error, FetchError::Protocol(_)), "{error}");
}

/// Exercises a port where nobody listens.
#[tokio::test]
async fn nobody_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let fetch =
        Fetch { address, method: Method::GET, path: "/", limit: Duration::from_secs(1), max_body: 100 };
    let error = fetch.run().await.unwrap_err();
    assert!(matches!(error, FetchError::Connect(_)), "{error}");
}
