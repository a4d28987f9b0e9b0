//! A small API server that answers as a test says, and remembers what it was asked.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    http::{HeaderMap, Response, StatusCode},
};
use futures_util::stream;
use tokio::{net::TcpListener, sync::oneshot, time::sleep};

/// A request.
#[derive(Clone, Debug)]
pub struct Asked {
    pub at: Instant,
    pub method: String,
    pub path: String,
    pub query: BTreeMap<String, String>,
}

impl Asked {
    pub fn is_watch(&self) -> bool {
        self.query.get("watch").is_some_and(|value| value == "true")
    }

    /// A watch that begins with a list.
    pub fn is_streaming(&self) -> bool {
        self.query.get("sendInitialEvents").is_some_and(|value| value == "true")
    }

    pub fn get(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }
}

/// A part of an answer's body.
#[derive(Clone, Debug)]
pub enum Piece {
    Text(String),
    Wait(Duration),
    /// The connection breaks.
    Cut,
    /// Nothing more comes, and no end.
    Hang,
    /// The same letter for ever.
    Endless,
    /// Empty lines for ever.
    EndlessLines,
}

/// An answer; its body ends after the last piece.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    late: Duration,
    pieces: Vec<Piece>,
}

impl Answer {
    /// A recorded answer, whole.
    pub fn file(status: u16, name: &str) -> Self {
        Self::text(status, &super::recorded(name))
    }

    pub fn text(status: u16, text: &str) -> Self {
        Self { status, headers: vec![], late: Duration::ZERO, pieces: vec![Piece::Text(text.to_owned())] }
    }

    pub fn body(pieces: Vec<Piece>) -> Self {
        Self { status: 200, headers: vec![], late: Duration::ZERO, pieces }
    }

    /// A watch that has told something and stays open.
    pub fn open(name: &str) -> Self {
        Self::file(200, name).then(Piece::Hang)
    }

    /// A watch in which nothing happens.
    pub fn silent() -> Self {
        Self::body(vec![Piece::Hang])
    }

    pub fn then(mut self, piece: Piece) -> Self {
        self.pieces.push(piece);
        self
    }

    pub fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Its head comes so late.
    pub fn late(mut self, time: Duration) -> Self {
        self.late = time;
        self
    }
}

/// What the server is told once: the answer to a request, which is the n-th (from 0) of all.
pub type Script = Arc<dyn Fn(&Asked, usize) -> Answer + Send + Sync>;

#[derive(Default)]
struct Memory {
    asked: Mutex<Vec<Asked>>,
    /// Bytes of endless answers that were taken from it.
    endless: AtomicU64,
}

/// The server, on a thread of its own; it is gone, with all its connections, when this is dropped.
pub struct Server {
    pub address: SocketAddr,
    memory: Arc<Memory>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn start(script: impl Fn(&Asked, usize) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), script)
    }

    pub fn start_at(
        address: SocketAddr,
        script: impl Fn(&Asked, usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let script: Script = Arc::new(script);
        let memory = Arc::new(Memory::default());
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let kept = Arc::clone(&memory);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind(address).await.unwrap();
                ready.send(listener.local_addr().unwrap()).unwrap();
                let router = Router::new().fallback(move |request: Request| answer(request, script, memory));
                tokio::select! {
                    served = axum::serve(listener, router).into_future() => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        let address = is_ready.recv().unwrap();
        Self { address, memory: kept, stop: Some(stop), thread: Some(thread) }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.memory.asked.lock().unwrap().clone()
    }

    pub fn endless(&self) -> u64 {
        self.memory.endless.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

async fn answer(request: Request, script: Script, memory: Arc<Memory>) -> Response<Body> {
    let query = request.uri().query().unwrap_or_default();
    let asked = Asked {
        at: Instant::now(),
        method: request.method().to_string(),
        path: request.uri().path().to_owned(),
        query: query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(k, v)| (k.into(), plain(v)))
            .collect(),
    };
    let count = {
        let mut all = memory.asked.lock().unwrap();
        all.push(asked.clone());
        all.len() - 1
    };
    let Answer { status, headers, late, pieces } = script(&asked, count);
    sleep(late).await;
    let body = stream::unfold((pieces.into_iter(), memory), async |(mut pieces, memory)| {
        loop {
            match pieces.next()? {
                Piece::Text(text) => return Some((Ok(Bytes::from(text)), (pieces, memory))),
                Piece::Wait(time) => sleep(time).await,
                Piece::Cut => return Some((Err(io::Error::other("cut")), (pieces, memory))),
                Piece::Hang => std::future::pending().await,
                endless @ (Piece::Endless | Piece::EndlessLines) => {
                    let more: &[u8] = match endless {
                        Piece::Endless => &[b'x'; 64 << 10],
                        _ => &[b'\n'; 64 << 10],
                    };
                    let more = Bytes::from_static(more);
                    memory.endless.fetch_add(more.len() as u64, Ordering::Relaxed);
                    let again: Vec<_> = [endless].into_iter().collect();
                    return Some((Ok(more), (again.into_iter(), memory)));
                }
            }
        }
    });
    let mut response = Response::new(Body::from_stream(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    let headers: HeaderMap = headers.iter().map(|(k, v)| (k.parse().unwrap(), v.parse().unwrap())).collect();
    response.headers_mut().extend(headers);
    response
}

/// Without percent signs and plus signs.
fn plain(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            other => other,
        });
    }
    String::from_utf8(bytes).unwrap()
}
