//! As much of an HTTP/1.1 server as a stage's app, the demo's health sidecar and the API server need: one thread a
//! connection, keep-alive, no request bodies.

use std::{
    fmt,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

/// A request's head may have this many bytes.
const HEAD_LIMIT: u64 = 16 * 1024;

/// What a handler is told.
#[derive(Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: String,
    pub from_loopback: bool,
}

/// What a handler answers.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub body: Body,
    /// Whether the connection ends after it, also when the client did not ask for that.
    pub close: bool,
}

/// What follows an answer's head.
#[derive(Debug)]
pub enum Body {
    /// All of it, at once.
    Whole(String),
    /// A line now and another each time `every` has passed, for as long as `goes_on` says so.
    Chunks { every: Duration, goes_on: GoesOn },
    /// Each when it is there, with the line end that it has.
    Lines(Lines),
}

/// What is sent line by line; the next one may be long in coming.
pub struct Lines(pub Box<dyn Iterator<Item = String>>);

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lines")
    }
}

/// Whether there is another line, asked with the time that has passed since the first.
pub struct GoesOn(pub Box<dyn Fn(Duration) -> bool>);

impl fmt::Debug for GoesOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GoesOn")
    }
}

impl Response {
    /// One that is there at once, on a connection that is kept.
    pub fn new(status: u16, body: impl Into<String>) -> Self {
        Self { status, body: Body::Whole(body.into()), close: false }
    }
}

/// Listens on `address` and answers until the process is killed.
pub fn serve<H>(address: &str, handler: H) -> Result<()>
where
    H: Fn(&Request) -> Response + Clone + Send + 'static,
{
    let listener = TcpListener::bind(address).with_context(|| {
        format!("cannot listen on {address}: is another server there, or is the address not this host's?")
    })?;
    accept(&listener, &handler, &AtomicBool::new(false));
    Ok(())
}

/// A server on a free port of loopback, until it is dropped. Connections that are open then end with their peers.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens, and answers from here on.
    pub fn start<H>(handler: H) -> Result<Self>
    where
        H: Fn(&Request) -> Response + Clone + Send + 'static,
    {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on any port of 127.0.0.1")?;
        let address = listener.local_addr().context("a listener without an address")?;
        let over = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&over);
        let acceptor = thread::spawn(move || accept(&listener, &handler, &end));
        Ok(Self { address, over, acceptor: Some(acceptor) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes it; where that fails nothing listens any more.
        let _woken = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            // A panic of it was already told on stderr.
            let _ended = acceptor.join();
        }
    }
}

fn accept<H>(listener: &TcpListener, handler: &H, over: &AtomicBool)
where
    H: Fn(&Request) -> Response + Clone + Send + 'static,
{
    for stream in listener.incoming() {
        if over.load(Ordering::Relaxed) {
            return;
        }
        match stream {
            Ok(stream) => {
                let handler = handler.clone();
                thread::spawn(move || {
                    // A peer that goes away in the middle is what the demo is about, not an error.
                    let _peer_gone = converse(&stream, &handler);
                });
            }
            Err(error) => {
                eprintln!("cannot accept a connection: {error}");
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn converse(stream: &TcpStream, handler: &impl Fn(&Request) -> Response) -> io::Result<()> {
    let from_loopback = stream.peer_addr()?.ip().is_loopback();
    let mut reader = BufReader::new(stream);
    loop {
        let Some((request, close)) = read_head(&mut reader, from_loopback)? else {
            return Ok(());
        };
        let response = handler(&request);
        let close = close || response.close;
        answer(stream, response, close)?;
        if close {
            return Ok(());
        }
    }
}

fn answer(mut stream: &TcpStream, response: Response, close: bool) -> io::Result<()> {
    let framing = match &response.body {
        Body::Whole(text) => format!("Content-Length: {}", text.len()),
        Body::Chunks { .. } | Body::Lines(_) => "Transfer-Encoding: chunked".to_owned(),
    };
    let head = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: text/plain\r\n{framing}\r\n{}\r\n",
        response.status,
        reason(response.status),
        if close { "Connection: close\r\n" } else { "" },
    );
    match response.body {
        // One write: an answer at once is one segment.
        Body::Whole(text) => stream.write_all(format!("{head}{text}").as_bytes()),
        Body::Chunks { every, goes_on } => {
            stream.write_all(head.as_bytes())?;
            let begun = Instant::now();
            loop {
                let line = format!("after {} ms\n", begun.elapsed().as_millis());
                stream.write_all(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes())?;
                thread::sleep(every);
                if !(goes_on.0)(begun.elapsed()) {
                    break;
                }
            }
            stream.write_all(b"0\r\n\r\n")
        }
        Body::Lines(Lines(lines)) => {
            stream.write_all(head.as_bytes())?;
            for line in lines {
                stream.write_all(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes())?;
            }
            stream.write_all(b"0\r\n\r\n")
        }
    }
}

/// The next request and whether the connection ends after it; `None` when the peer has closed.
fn read_head(reader: &mut BufReader<&TcpStream>, from_loopback: bool) -> io::Result<Option<(Request, bool)>> {
    let mut head = reader.take(HEAD_LIMIT);
    let mut line = String::new();
    if head.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_ascii_whitespace();
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let request =
        Request { method: method.to_owned(), path: path.to_owned(), query: query.to_owned(), from_loopback };
    let mut close = version == "HTTP/1.0";
    loop {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Some((name, value)) = line.trim_end().split_once(':') else {
            return Ok(Some((request, close)));
        };
        let value = value.trim();
        // A body is not read, so nothing after it could be understood.
        close |= name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close")
            || name.eq_ignore_ascii_case("content-length") && value != "0"
            || name.eq_ignore_ascii_case("transfer-encoding");
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        503 => "Service Unavailable",
        _ => "",
    }
}
