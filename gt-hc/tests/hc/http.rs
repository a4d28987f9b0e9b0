//! A client so plain that what it shows is what came over the wire.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, Result};

/// An answer, with its head as it was.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

/// One request on a connection of its own.
pub fn ask(address: SocketAddr, method: &str, path: &str) -> Result<Answer> {
    raw(address, format!("{method} {path} HTTP/1.1\r\nHost: hc\r\nConnection: close\r\n\r\n").as_bytes())
}

/// Sends bytes and reads until the server closes.
pub fn raw(address: SocketAddr, request: &[u8]) -> Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))
        .with_context(|| format!("cannot connect to {address}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(15)))?;
    // A server may refuse a head before it has all of it.
    let _refused_early = stream.write_all(request);
    let mut bytes = Vec::new();
    // The rest of a refused head makes the server's end a reset; what it said came before that.
    let _reset = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).context("the answer is no text")?;
    let (head, body) =
        text.split_once("\r\n\r\n").with_context(|| format!("no complete head in {text:?}"))?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
}
