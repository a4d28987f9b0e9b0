//! HTTP/1 on a connection: how many requests have begun, and how many answers are whole (RFC 9112).

use std::collections::VecDeque;

use super::stream::Piece;

/// A head that is longer is none.
const LONGEST_HEAD: usize = 65_536;
const MOST_HEADERS: usize = 128;

/// Requests that wait for their answers on one connection.
const MOST_WAITING: usize = 1_024;

/// Both directions.
#[derive(Debug, Default)]
pub(super) struct Http1 {
    requests: Side,
    answers: Side,
    /// Whether each request that waits for its answer's head is a HEAD.
    waiting: VecDeque<bool>,
    /// Answers that are not whole yet, and requests that have no answer.
    open: u64,
    /// It is not HTTP/1 any more, or never was.
    pub(super) lost: bool,
}

/// Where one direction is in its messages.
#[derive(Debug, Default)]
struct Side {
    head: Vec<u8>,
    body: Body,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Body {
    /// Between messages, or in a head.
    #[default]
    None,
    /// So many bytes follow.
    Left(u64),
    /// A line with the size of the next chunk, or of the trailers, follows.
    Size,
    /// So many bytes of a chunk and its end of line follow.
    Chunk(u64),
    Trailers,
    /// Until the connection ends.
    Rest,
}

impl Http1 {
    /// Requests without a whole answer.
    pub(super) fn in_flight(&self) -> u64 {
        self.open.max(u64::from(!self.requests.head.is_empty()))
    }

    /// Whether an answer has begun and is not whole.
    pub(super) fn is_answering(&self) -> bool {
        self.answers.body != Body::None || !self.answers.head.is_empty()
    }

    /// Whether the answer under way lasts until the pod closes: then its end tells nothing.
    pub(super) fn lasts_until_the_end(&self) -> bool {
        self.answers.body == Body::Rest
    }

    /// Bytes of the client.
    pub(super) fn asked(&mut self, piece: &Piece) {
        let mut begun = Vec::new();
        let is_fine = self.requests.take(piece, |head| {
            let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
            let mut request = httparse::Request::new(&mut headers);
            request.parse(head).ok().filter(httparse::Status::is_complete)?;
            let method = request.method?;
            begun.push(method == "HEAD");
            if method == "CONNECT" {
                return None;
            }
            body(request.headers).ok().map(|body| body.unwrap_or(Body::None))
        });
        self.open = self.open.saturating_add(u64::try_from(begun.len()).unwrap_or(u64::MAX));
        self.waiting.extend(begun);
        self.lost |= !is_fine || self.waiting.len() > MOST_WAITING;
    }

    /// Bytes of the pod.
    pub(super) fn answered(&mut self, piece: &Piece) {
        let Self { waiting, answers, .. } = self;
        let (mut ended, mut unasked) = (0_u64, false);
        let is_fine = answers.take_counted(piece, &mut ended, |head| {
            let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
            let mut answer = httparse::Response::new(&mut headers);
            answer.parse(head).ok().filter(httparse::Status::is_complete)?;
            let code = answer.code?;
            if code == 101 {
                return None;
            }
            if code < 200 {
                return Some(Head::Interim);
            }
            let Some(is_head) = waiting.pop_front() else {
                unasked = true;
                return Some(Head::Final(Body::None));
            };
            let body = body(answer.headers).ok()?;
            let is_empty = is_head || code == 204 || code == 304;
            Some(Head::Final(if is_empty { Body::None } else { body.unwrap_or(Body::Rest) }))
        });
        // An answer to nothing, such as 408 on an idle connection, ends no request.
        self.open = self.open.saturating_sub(ended.saturating_sub(u64::from(unasked)));
        self.lost |= !is_fine;
    }
}

/// The kind of an answer's head.
enum Head {
    /// 100 and the like: the answer follows.
    Interim,
    Final(Body),
}

impl Side {
    /// Takes bytes of requests; `false` when they are none.
    fn take(&mut self, piece: &Piece, mut head: impl FnMut(&[u8]) -> Option<Body>) -> bool {
        self.take_counted(piece, &mut 0, |bytes| head(bytes).map(Head::Final))
    }

    /// The same, counting messages that ended.
    fn take_counted(
        &mut self,
        piece: &Piece,
        ended: &mut u64,
        mut head: impl FnMut(&[u8]) -> Option<Head>,
    ) -> bool {
        let mut data = piece.data.as_slice();
        while !data.is_empty() {
            match self.body {
                Body::None => {
                    let Some(end) = self.fill(&mut data) else { continue };
                    let message = head(self.head.get(..end).unwrap_or_default());
                    self.head.clear();
                    match message {
                        None => return false,
                        Some(Head::Interim) => {}
                        Some(Head::Final(body)) => self.enter(body, ended),
                    }
                }
                Body::Left(left) => {
                    let step = self.skip(&mut data, left);
                    self.enter(Body::Left(left - step), ended);
                }
                Body::Chunk(left) => {
                    let step = self.skip(&mut data, left);
                    self.body = if left == step { Body::Size } else { Body::Chunk(left - step) };
                }
                Body::Size | Body::Trailers => {
                    let Some(line) = self.line(&mut data) else { continue };
                    let next = if self.body == Body::Size { chunk(&line) } else { trailer(&line) };
                    let Some(next) = next else { return false };
                    self.enter(next, ended);
                }
                Body::Rest => return true,
            }
            if self.head.len() > LONGEST_HEAD {
                return false;
            }
        }
        self.miss(piece.missing, ended)
    }

    fn enter(&mut self, body: Body, ended: &mut u64) {
        self.body = if body == Body::Left(0) { Body::None } else { body };
        *ended += u64::from(self.body == Body::None);
    }

    /// Moves bytes to the head until it is whole: its length. Empty lines before a message are no part of it.
    fn fill(&mut self, data: &mut &[u8]) -> Option<usize> {
        while let Some((byte, rest)) = data.split_first() {
            *data = rest;
            if self.head.is_empty() && matches!(byte, b'\r' | b'\n') {
                continue;
            }
            self.head.push(*byte);
            if self.head.ends_with(b"\r\n\r\n") || self.head.ends_with(b"\n\n") {
                return Some(self.head.len());
            }
        }
        None
    }

    /// Moves bytes until a line is whole: the line.
    fn line(&mut self, data: &mut &[u8]) -> Option<Vec<u8>> {
        while let Some((byte, rest)) = data.split_first() {
            *data = rest;
            if *byte == b'\n' {
                let mut line = std::mem::take(&mut self.head);
                let _carriage_return = line.pop_if(|last| *last == b'\r');
                return Some(line);
            }
            self.head.push(*byte);
        }
        None
    }

    fn skip(&self, data: &mut &[u8], left: u64) -> u64 {
        let step = usize::try_from(left).unwrap_or(usize::MAX).min(data.len());
        *data = data.get(step..).unwrap_or_default();
        u64::try_from(step).unwrap_or(left)
    }

    /// Bytes that the capture did not keep: within a body of known length they say nothing that is needed.
    fn miss(&mut self, missing: usize, ended: &mut u64) -> bool {
        let missing = u64::try_from(missing).unwrap_or(u64::MAX);
        match self.body {
            _ if missing == 0 => true,
            Body::Left(left) if missing <= left => {
                self.enter(Body::Left(left - missing), ended);
                true
            }
            Body::Chunk(left) if missing < left => {
                self.body = Body::Chunk(left - missing);
                true
            }
            Body::Rest => true,
            _ => false,
        }
    }
}

/// Headers that announce a length which is none.
struct NoLength;

/// The body that headers announce; `None` when they announce none.
fn body(headers: &[httparse::Header<'_>]) -> Result<Option<Body>, NoLength> {
    let all = |name: &'static str| {
        let named = headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.map(|header| String::from_utf8_lossy(header.value).trim().to_ascii_lowercase())
    };
    if all("transfer-encoding").any(|coding| coding.ends_with("chunked")) {
        return Ok(Some(Body::Size));
    }
    let length = all("content-length").next();
    length.map(|length| length.parse().map(Body::Left).map_err(|_| NoLength)).transpose()
}

/// What follows a line with a chunk's size.
fn chunk(line: &[u8]) -> Option<Body> {
    let digits = line.split(|byte| *byte == b';').next()?;
    let size = u64::from_str_radix(std::str::from_utf8(digits).ok()?.trim(), 16).ok()?;
    // Each chunk ends with an end of line.
    Some(if size == 0 { Body::Trailers } else { Body::Chunk(size.checked_add(2)?) })
}

/// What follows a line of trailers: they end with an empty one.
fn trailer(line: &[u8]) -> Option<Body> {
    Some(if line.is_empty() { Body::None } else { Body::Trailers })
}

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
