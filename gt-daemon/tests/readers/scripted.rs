//! An HTTP server on loopback that says the same to every question.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// What it says.
#[derive(Clone, Debug)]
pub enum Answer {
    /// 200 with this body.
    Body(String),
    /// Nothing, ever.
    Hang,
}

/// Serves until it is dropped, those who are connected to the end of the runtime.
pub struct Scripted {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    answer: Mutex<Answer>,
    asked: AtomicU64,
}

impl Scripted {
    pub async fn start(answer: Answer) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { answer: Mutex::new(answer), asked: AtomicU64::new(0) });
        let of_all = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&of_all)));
            }
        });
        Ok(Self { address, shared, task })
    }

    /// Questions so far; each of these fits in one segment.
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::Relaxed)
    }

    /// From now on it says this.
    pub fn say(&self, answer: Answer) {
        *self.shared.answer.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut head = vec![0; 8192];
    while let Ok(1..) = stream.read(&mut head).await {
        shared.asked.fetch_add(1, Ordering::Relaxed);
        let answer = shared.answer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Answer::Body(body) = answer else { std::future::pending().await };
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}
