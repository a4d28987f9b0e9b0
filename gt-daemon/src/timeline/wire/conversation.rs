//! One connection to the pod, as the segments of a capture tell it: how it ended, and what was in flight then.

use std::net::SocketAddr;

use super::{http1::Http1, http2::Http2, packets::Segment, stream::Stream};
use crate::{correlate::torn::Ending, drain::fact::Way};

/// What a connection speaks.
#[derive(Debug, Default)]
enum Speech {
    /// The client has said nothing yet, or too little.
    #[default]
    Nothing,
    Http1(Box<Http1>),
    Http2(Box<Http2>),
    Tls,
    Unknown,
}

/// Whether a request was in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing was.
    Idle,
    /// A request had no answer yet.
    Awaiting,
    /// An answer was under way.
    Streaming,
    /// The capture does not tell.
    Unknown,
}

impl Phase {
    /// The word in records.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Awaiting => "awaiting",
            Self::Streaming => "streaming",
            Self::Unknown => "unknown",
        }
    }
}

/// How a connection began to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub ts: i64,
    pub ending: Ending,
    pub phase: Phase,
    /// Requests in flight, where they are told.
    pub in_flight: u64,
}

/// One connection.
#[derive(Debug)]
pub struct Conversation {
    pub client: SocketAddr,
    /// The pod's side.
    pub server: SocketAddr,
    /// Its first and its last segment.
    pub first: i64,
    pub last: i64,
    pub end: Option<End>,
    /// The first RST: when, and where it went as the pod sees it.
    pub rst: Option<(i64, Way)>,
    /// Streams that were reset while the connection lived on: when, and by whom.
    pub resets: Vec<(i64, Way)>,
    asked: Stream,
    answered: Stream,
    speech: Speech,
    /// Whether both sides had agreed to it.
    established: bool,
}

/// Streams of one connection whose resets are kept.
const MOST_RESETS: usize = 4_096;

impl Conversation {
    pub(super) fn new(client: SocketAddr, server: SocketAddr, ts: i64) -> Self {
        Self {
            client,
            server,
            first: ts,
            last: ts,
            end: None,
            rst: None,
            resets: Vec::new(),
            asked: Stream::default(),
            answered: Stream::default(),
            speech: Speech::Nothing,
            established: false,
        }
    }

    /// The word in records.
    #[must_use]
    pub fn protocol(&self) -> &'static str {
        match self.speech {
            Speech::Nothing => "nothing",
            Speech::Http1(_) => "http1",
            Speech::Http2(_) => "http2",
            Speech::Tls => "tls",
            Speech::Unknown => "unknown",
        }
    }

    pub(super) fn take(&mut self, segment: &Segment<'_>) {
        let is_clients = segment.from == self.client;
        self.last = self.last.max(segment.ts);
        if segment.syn {
            let stream = if is_clients { &mut self.asked } else { &mut self.answered };
            if !stream.is_begun() {
                stream.begin(segment.seq.wrapping_add(1));
            }
            // Agreed to by the pod's answer, or else by what follows.
            self.established |= !is_clients;
        } else if !segment.rst {
            self.established = true;
            if self.end.is_none() {
                self.hear(segment, is_clients);
            }
        }
        if segment.fin || segment.rst {
            self.finish(segment, is_clients);
        }
    }

    fn hear(&mut self, segment: &Segment<'_>, is_clients: bool) {
        let Self { speech, asked, answered, resets, .. } = self;
        let mut reset = 0;
        if is_clients {
            asked.put(segment.seq, segment.data, segment.length, |piece| {
                if matches!(speech, Speech::Nothing) {
                    *speech = Speech::of(&piece.data);
                }
                match speech {
                    Speech::Http1(http) => http.asked(piece),
                    Speech::Http2(http) => reset += http.asked(piece),
                    Speech::Nothing | Speech::Tls | Speech::Unknown => {}
                }
            });
        } else {
            answered.put(segment.seq, segment.data, segment.length, |piece| match speech {
                Speech::Http1(http) => http.answered(piece),
                Speech::Http2(http) => reset += http.answered(piece),
                // A pod that speaks first speaks no HTTP/1.
                Speech::Nothing | Speech::Tls | Speech::Unknown => {}
            });
        }
        let way = if is_clients { Way::Received } else { Way::Sent };
        for _ in 0..reset {
            if resets.len() < MOST_RESETS {
                resets.push((segment.ts, way));
            }
        }
    }

    fn finish(&mut self, segment: &Segment<'_>, is_clients: bool) {
        if !self.established {
            // An attempt that was refused.
            return;
        }
        let ending = match (segment.rst, is_clients) {
            (false, true) => Ending::FinReceived,
            (false, false) => Ending::FinSent,
            (true, true) => Ending::RstReceived,
            (true, false) => Ending::RstSent,
        };
        if self.end.is_none() {
            let (own, other) =
                if is_clients { (&self.asked, &self.answered) } else { (&self.answered, &self.asked) };
            // What stands behind bytes that are not in the capture, or acknowledges such.
            let length = u32::try_from(segment.length).unwrap_or(0);
            let is_short = own.misses(segment.seq.wrapping_add(if segment.fin { length } else { 0 }))
                || segment.ack && other.misses(segment.acknowledged);
            let (phase, in_flight) = if is_short { (Phase::Unknown, 0) } else { self.phase(ending) };
            self.end = Some(End { ts: segment.ts, ending, phase, in_flight });
        }
        if segment.rst && self.rst.is_none() {
            self.rst = Some((segment.ts, if is_clients { Way::Received } else { Way::Sent }));
        }
    }

    /// What the bytes so far prove.
    fn phase(&self, ending: Ending) -> (Phase, u64) {
        let unknown = (Phase::Unknown, 0);
        if self.asked.has_hole() || self.answered.has_hole() {
            return unknown;
        }
        if !self.asked.is_begun() || !self.answered.is_begun() {
            return unknown;
        }
        match &self.speech {
            // A connection on which nobody said a word.
            Speech::Nothing => (Phase::Idle, 0),
            Speech::Http1(http) if http.lost => unknown,
            // Its end is the answer's, and whether it came too early only the pod knows.
            Speech::Http1(http) if ending == Ending::FinSent && http.lasts_until_the_end() => unknown,
            Speech::Http1(http) => match (http.in_flight(), http.is_answering()) {
                (0, _) => (Phase::Idle, 0),
                (count, true) => (Phase::Streaming, count),
                (count, false) => (Phase::Awaiting, count),
            },
            Speech::Http2(http) if http.lost => unknown,
            Speech::Http2(http) => match http.in_flight() {
                0 => (Phase::Idle, 0),
                count => (Phase::Awaiting, count),
            },
            Speech::Tls | Speech::Unknown => unknown,
        }
    }
}

impl Speech {
    /// By the first bytes, as the kernel programs do.
    fn of(bytes: &[u8]) -> Self {
        match bytes {
            [b'P', b'R', b'I', b' ', ..] => Self::Http2(Box::default()),
            [0x16, 0x03, ..] => Self::Tls,
            _ if starts_with_method(bytes) => Self::Http1(Box::default()),
            _ => Self::Unknown,
        }
    }
}

fn starts_with_method(bytes: &[u8]) -> bool {
    const METHODS: [&[u8]; 9] =
        [b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"CONN", b"OPTI", b"TRAC", b"PATC"];
    METHODS.iter().any(|method| bytes.starts_with(method))
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
