//! Connections as fast as they go: open, one request, its answer, close (or reset); or requests on connections that stay.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd as _,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use nix::{
    libc,
    sys::socket::{self, setsockopt, sockopt},
};

/// Clients, and workers of the server.
const THREADS: usize = 4;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// How the client ends each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Both sides send a FIN.
    Close,
    /// The client sends an RST.
    Reset,
    /// Not before the load is over: each client has one connection for all of its requests.
    Kept,
}

/// What to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) length: Duration,
    pub(super) ending: Ending,
}

/// What was done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// Connections, each with one request; requests where connections stay.
    pub(super) count: u64,
    time: Duration,
}

impl Done {
    pub(super) fn per_second(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
        let count = self.count as f64;
        count / self.time.as_secs_f64()
    }
}

/// Makes connections from the namespace of the calling thread.
pub(super) fn run(address: SocketAddr, load: &Load) -> Result<Done> {
    let started = Instant::now();
    let until = started + load.length;
    let count = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..THREADS).map(|_| scope.spawn(|| client(address, load.ending, until))).collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .sum::<Result<u64>>()
    })?;
    Ok(Done { count, time: started.elapsed() })
}

fn client(address: SocketAddr, ending: Ending, until: Instant) -> Result<u64> {
    if ending == Ending::Kept {
        return requests(address, until);
    }
    let mut connections = 0;
    while Instant::now() < until {
        connection(address, ending).with_context(|| format!("connection {connections} to {address}"))?;
        connections += 1;
    }
    Ok(connections)
}

/// Makes so many connections a second, each at its instant or as soon after it as can be; returns how many.
pub(super) fn paced(address: SocketAddr, per_second: u32, length: Duration, ending: Ending) -> Result<u64> {
    let began = Instant::now();
    let pause = Duration::from_secs(1) / per_second;
    thread::scope(|scope| {
        let client = |first: u32| {
            let mut made = 0;
            for number in (first..).step_by(THREADS) {
                let at = pause * number;
                if at >= length {
                    break;
                }
                thread::sleep(at.saturating_sub(began.elapsed()));
                connection(address, ending).with_context(|| format!("connection {number} to {address}"))?;
                made += 1;
            }
            Ok(made)
        };
        let clients: Vec<_> = (0..).take(THREADS).map(|first| scope.spawn(move || client(first))).collect();
        clients
            .into_iter()
            .map(|client| client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .sum::<Result<u64>>()
    })
}

/// Requests on one connection, each after the answer to the one before.
fn requests(address: SocketAddr, until: Instant) -> Result<u64> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut requests = 0;
    while Instant::now() < until {
        request(&mut stream).with_context(|| format!("request {requests} to {address}"))?;
        requests += 1;
    }
    Ok(requests)
}

fn request(stream: &mut TcpStream) -> Result<()> {
    stream.write_all(REQUEST)?;
    let mut answer = [0; ANSWER.len()];
    Ok(stream.read_exact(&mut answer)?)
}

fn connection(address: SocketAddr, ending: Ending) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    request(&mut stream)?;
    if ending == Ending::Reset {
        setsockopt(&stream, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?;
    }
    Ok(())
}

/// Answers until it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    listener: Arc<TcpListener>,
    workers: Vec<JoinHandle<()>>,
}

impl Server {
    /// Listens in the namespace of the calling thread.
    pub(super) fn start(address: SocketAddr) -> Result<Self> {
        let listener =
            Arc::new(TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?);
        let workers = (0..THREADS)
            .map(|_| {
                let listener = Arc::clone(&listener);
                thread::spawn(move || {
                    while let Ok((stream, _)) = listener.accept() {
                        // The client tells when something is wrong.
                        let _ended = answer(stream);
                    }
                })
            })
            .collect();
        Ok(Self { listener, workers })
    }
}

/// Answers requests until the client's FIN or RST.
fn answer(mut stream: TcpStream) -> Result<()> {
    let mut request = [0; REQUEST.len()];
    loop {
        let first = stream.read(&mut request).context("the client reset the connection")?;
        if first == 0 {
            return Ok(());
        }
        stream.read_exact(&mut request[first..])?;
        stream.write_all(ANSWER)?;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Wakes every worker from accept.
        let _not_listening = socket::shutdown(self.listener.as_raw_fd(), socket::Shutdown::Both);
        for worker in self.workers.drain(..) {
            let _panicked = worker.join();
        }
    }
}
