//! HTTP/1.1 requests, each on a connection that is already there, and the answers to them.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::sandbox::Netns;

/// The answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: u16,
    pub body: String,
}

/// What a client has seen of an answer when it is over, whole or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `None` when not even a status came.
    pub status: Option<u16>,
    /// Whether the answer came to its proper end.
    pub whole: bool,
    /// Lines of its body: chunks of a stream.
    pub lines: usize,
    /// Why it is not whole.
    pub error: Option<String>,
}

/// A request that was sent and whose answer was not read to its end. Dropped, it is a client that went away.
#[derive(Debug)]
pub struct Exchange {
    stream: TcpStream,
    what: String,
    answer: Vec<u8>,
}

impl Exchange {
    /// Sends `method` for `path`; each silence of the answer may last `limit`.
    pub fn begin(mut stream: TcpStream, method: &str, path: &str, limit: Duration) -> Result<Self> {
        let what = format!("{method} {path}");
        stream.set_read_timeout(Some(limit)).with_context(|| format!("{what}: cannot set a time limit"))?;
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: gt\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).with_context(|| format!("{what}: cannot send"))?;
        Ok(Self { stream, what, answer: Vec::new() })
    }

    /// Waits until a part of the answer's body has come.
    pub fn body_begins(&mut self) -> Result<()> {
        while !self.answer.windows(4).any(|end| end == b"\r\n\r\n") || self.answer.ends_with(b"\r\n\r\n") {
            self.read_on()?;
        }
        Ok(())
    }

    /// Reads what comes of the answer for some time; its end is an error.
    pub fn body_lasts(&mut self, length: Duration) -> Result<()> {
        let until = Instant::now() + length;
        while Instant::now() < until {
            self.read_on()?;
        }
        Ok(())
    }

    fn read_on(&mut self) -> Result<()> {
        let mut block = [0; 4096];
        let read = self.stream.read(&mut block).with_context(|| format!("{}: no answer", self.what))?;
        if read == 0 {
            bail!("{}: the answer ended after {} bytes", self.what, self.answer.len());
        }
        self.answer.extend_from_slice(block.get(..read).unwrap_or_default());
        Ok(())
    }

    /// Reads what comes of the answer, also when that is not all of it.
    #[must_use]
    pub fn seen(mut self) -> Seen {
        let error = self.stream.read_to_end(&mut self.answer).err().map(|error| error.to_string());
        let mut seen = see(&String::from_utf8_lossy(&self.answer));
        seen.whole &= error.is_none();
        seen.error = error.or(seen.error);
        seen
    }

    /// Reads the answer to its end.
    pub fn finish(mut self) -> Result<Reply> {
        let what = &self.what;
        let read = self.stream.read_to_end(&mut self.answer);
        read.with_context(|| format!("{what}: no whole answer ({} bytes came)", self.answer.len()))?;
        parse(&String::from_utf8_lossy(&self.answer))
            .with_context(|| format!("{what}: the answer is not whole HTTP"))
    }
}

/// Sends `method` for `path` and reads the answer to its end; each silence may last `limit`.
pub fn request(stream: TcpStream, method: &str, path: &str, limit: Duration) -> Result<Reply> {
    Exchange::begin(stream, method, path, limit)?.finish()
}

/// One more request on a connection that is kept, and its answer, which must have a length or be chunked.
pub fn again(stream: &mut TcpStream, path: &str) -> Result<Reply> {
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: gt\r\n\r\n").as_bytes())
        .with_context(|| format!("GET {path}: cannot send"))?;
    let (mut answer, mut block) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut block).with_context(|| format!("GET {path}: no answer"))?;
        if read == 0 {
            bail!("GET {path}: the connection ended after {} bytes of the answer", answer.len());
        }
        answer.extend_from_slice(block.get(..read).unwrap_or_default());
        if let Ok(reply) = parse(&String::from_utf8_lossy(&answer)) {
            return Ok(reply);
        }
    }
}

/// Connects to `address` inside a namespace.
pub fn connect(netns: &Netns, address: SocketAddr) -> Result<TcpStream> {
    netns
        .enter(|| TcpStream::connect_timeout(&address, Duration::from_secs(2)))?
        .with_context(|| format!("cannot connect to {address} in network namespace {}", netns.name()))
}

/// One request on a connection of its own, made inside a namespace.
pub fn ask(netns: &Netns, address: SocketAddr, method: &str, path: &str) -> Result<Reply> {
    request(connect(netns, address)?, method, path, Duration::from_secs(5))
}

fn see(answer: &str) -> Seen {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    match parse(answer) {
        Ok(Reply { status, body }) => {
            Seen { status: Some(status), whole: true, lines: body.lines().count(), error: None }
        }
        // The lines of what came are the app's, and those that give the sizes of chunks.
        Err(error) => Seen {
            status,
            whole: false,
            lines: body.lines().filter(|line| line.starts_with("after ")).count(),
            error: Some(format!("{error:#}")),
        },
    }
}

fn parse(answer: &str) -> Result<Reply> {
    let (head, body) = answer.split_once("\r\n\r\n").context("it ended within its head")?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .with_context(|| format!("no status in {:?}", head.lines().next().unwrap_or_default()))?;
    let header = |wanted: &str| {
        head.lines().skip(1).find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case(wanted).then(|| value.trim())
        })
    };
    if header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        return Ok(Reply { status, body: unchunk(body)? });
    }
    if let Some(length) = header("content-length").and_then(|value| value.parse::<usize>().ok())
        && body.len() < length
    {
        bail!("it ended after {} of {length} bytes", body.len());
    }
    Ok(Reply { status, body: body.to_owned() })
}

fn unchunk(mut rest: &str) -> Result<String> {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n").context("it ended before a chunk's size")?;
        let size = usize::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16)
            .with_context(|| format!("{size:?} is no chunk size"))?;
        if size == 0 {
            return Ok(body);
        }
        body.push_str(after.get(..size).context("it ended within a chunk")?);
        rest = after.get(size..).and_then(|rest| rest.strip_prefix("\r\n")).context("a chunk has no end")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(answer: &str) -> Option<String> {
        parse(answer).ok().map(|reply| reply.body)
    }

    /// Exercises whole and cut-off answers so that half of an answer is never read as an answer.
    #[test]
    fn whole_answers_only() {
        assert_eq!(
            parse("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 3\r\n\r\nabc").unwrap(),
            Reply { status: 502, body: "abc".to_owned() }
        );
        assert_eq!(body("HTTP/1.0 200 OK\r\n\r\nto the end").as_deref(), Some("to the end"));
        assert_eq!(
            body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x\r\nd\r\n0\r\n\r\n")
                .as_deref(),
            Some("abcd")
        );
        for cut in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        ] {
            assert_eq!(body(cut), None, "{cut:?}");
        }
    }

    /// Exercises a stream, whole and cut off, so that the chunks of both are counted.
    #[test]
    fn chunks_of_a_stream() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunks = "b\r\nafter 0 ms\n\r\nc\r\nafter 30 ms\n\r\n";
        let whole = see(&format!("{head}{chunks}0\r\n\r\n"));
        assert_eq!((whole.status, whole.whole, whole.lines, whole.error), (Some(200), true, 2, None));
        let cut = see(&format!("{head}{chunks}"));
        assert_eq!((cut.status, cut.whole, cut.lines, cut.error.is_some()), (Some(200), false, 2, true));
        let nothing = see("");
        assert_eq!((nothing.status, nothing.whole, nothing.lines), (None, false, 0));
    }
}
