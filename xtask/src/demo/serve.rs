//! As much of an HTTP/1.1 server as the demo's app and health sidecar need: one thread a connection,
//! keep-alive, no request bodies.

use std::{
    fmt::Write as _,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};

/// A request's head may have this many bytes.
const HEAD_LIMIT: u64 = 16 * 1024;

/// What a handler is told.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) from_loopback: bool,
}

/// What a handler answers.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: String,
}

impl Response {
    pub(super) fn new(status: u16, body: impl Into<String>) -> Self {
        Self { status, body: body.into() }
    }
}

/// Listens on `address` and answers until the process is killed.
pub(super) fn serve<H>(address: &str, handler: H) -> Result<()>
where
    H: Fn(&Request) -> Response + Clone + Send + 'static,
{
    let listener = TcpListener::bind(address).with_context(|| {
        format!("cannot listen on {address}: is another server there, or is the address not this host's?")
    })?;
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => {
                let handler = handler.clone();
                thread::spawn(move || {
                    // A peer that goes away in the middle is what the demo is about, not an error.
                    let _peer_gone = converse(&stream, &handler);
                });
            }
            Err(error) => {
                eprintln!("cannot accept on {address}: {error}");
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
    Ok(())
}

fn converse(stream: &TcpStream, handler: &impl Fn(&Request) -> Response) -> io::Result<()> {
    let from_loopback = stream.peer_addr()?.ip().is_loopback();
    let mut reader = BufReader::new(stream);
    loop {
        let Some((request, close)) = read_head(&mut reader, from_loopback)? else {
            return Ok(());
        };
        let response = handler(&request);
        let mut text = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n",
            response.status,
            reason(response.status),
            response.body.len()
        );
        if close {
            text.push_str("Connection: close\r\n");
        }
        // Writing to a String cannot fail.
        let _infallible = write!(text, "\r\n{}", response.body);
        (&*stream).write_all(text.as_bytes())?;
        if close {
            return Ok(());
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
