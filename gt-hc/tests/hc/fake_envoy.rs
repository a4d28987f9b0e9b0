//! An admin server that answers what a test tells it to.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Result;

/// What is answered.
#[derive(Clone, Debug)]
pub enum Mode {
    /// The rows of a recorded gateway, with these counts downstream and upstream.
    Counts(u64, u64),
    /// The same as text, as Envoys that do not know `format` answer.
    TextCounts(u64, u64),
    /// Anything, with status and body.
    Answer(u16, &'static str),
    /// Accepts, reads, and says nothing.
    Hang,
    /// Closes in the middle of an answer whose part so far has zeros.
    CutOff,
}

/// The server; its threads end with the test's process.
pub struct FakeEnvoy {
    pub address: SocketAddr,
    mode: Arc<Mutex<Mode>>,
    asked: Arc<AtomicUsize>,
}

impl FakeEnvoy {
    pub fn start(mode: Mode) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let envoy =
            Self { address: listener.local_addr()?, mode: Arc::new(Mutex::new(mode)), asked: Arc::default() };
        let (mode, asked) = (Arc::clone(&envoy.mode), Arc::clone(&envoy.asked));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                asked.fetch_add(1, Ordering::SeqCst);
                let mode = mode.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // Whoever asked may have given up.
                thread::spawn(move || drop(answer(stream, &mode)));
            }
        });
        Ok(envoy)
    }

    pub fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn answer(mut stream: TcpStream, mode: &Mode) -> Result<()> {
    let mut head = [0; 4096];
    let _read = stream.read(&mut head)?;
    let (status, length, body) = match mode {
        Mode::Counts(downstream, upstream) => (200, None, json(&rows(*downstream, *upstream))),
        Mode::TextCounts(downstream, upstream) => (200, None, text(&rows(*downstream, *upstream))),
        Mode::Answer(status, body) => (*status, None, (*body).to_owned()),
        Mode::CutOff => (200, Some(10_000), text(&rows(0, 0))),
        Mode::Hang => {
            thread::sleep(Duration::from_secs(60));
            return Ok(());
        }
    };
    let length = length.unwrap_or(body.len());
    write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}")?;
    Ok(())
}

/// Names as an Istio gateway has them, recorded from Envoy 1.40 and Istio's bootstrap.
fn rows(downstream: u64, upstream: u64) -> Vec<(&'static str, u64)> {
    vec![
        ("cluster.agent.upstream_rq_active", 1),
        ("cluster.outbound|80||app.shop.svc.cluster.local;.ClusterTrafficStats.initialized", 1),
        ("cluster.outbound|80||app.shop.svc.cluster.local;.upstream_rq_active", upstream),
        ("cluster.outbound|80||idle.shop.svc.cluster.local;.ClusterTrafficStats.initialized", 0),
        ("cluster.xds-grpc.upstream_rq_active", 1),
        ("http.admin.downstream_rq_active", 1),
        ("http.agent.downstream_rq_active", 1),
        ("http.outbound_0.0.0.0_8080;.downstream_rq_active", 0),
        ("http.outbound_0.0.0.0_8443;.downstream_rq_active", downstream),
        ("http.stats.downstream_rq_active", 1),
    ]
}

fn text(rows: &[(&str, u64)]) -> String {
    rows.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
}

fn json(rows: &[(&str, u64)]) -> String {
    let stats: Vec<_> =
        rows.iter().map(|(name, value)| serde_json::json!({"name": name, "value": value})).collect();
    serde_json::json!({ "stats": stats }).to_string()
}
