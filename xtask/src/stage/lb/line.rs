//! Lines of HAProxy's log (`format iso`, `option httplog`).

use std::{fmt, time::Instant};

/// A line, and when it arrived here.
#[derive(Clone, Debug)]
pub struct Line {
    pub at: Instant,
    pub text: String,
}

/// One line of `option httplog`: a request that is over, HAProxy's judgement of how it ended included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The server that had it, `<NOSRV>` when none did.
    pub server: String,
    /// What the client was told; -1 when nothing.
    pub status: i32,
    /// The state at the end: who ended it (`C` the client, `S` the server, `D` HAProxy since the server is DOWN, `-` nobody)
    /// and what it was about (`H` waiting for the answer's head, `D` data), then two characters about cookies.
    pub termination: String,
    /// How often HAProxy tried another connection for it, and whether the last one was to another server.
    pub retries: u32,
    pub redispatched: bool,
    /// The request's first line.
    pub request: String,
}

impl Line {
    /// HAProxy's own time of day and its words, without what comes after the reason of a DOWN.
    #[must_use]
    pub fn told(&self) -> String {
        let (at, words) = self.text.split_once(' ').unwrap_or_default();
        let words = words.split(", check duration").next().unwrap_or_default();
        format!("{} {words}", at.get(11..26).unwrap_or(at))
    }

    /// The session it is about; `None` for a line about something else.
    ///
    /// `<time> <client> [<accept>] <frontend> <backend>/<server> <times> <status> <bytes> - - <termination> <counts> <queues> "<request>"`
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        let (fields, request) = self.text.split_once(" \"")?;
        let fields: Vec<_> = fields.split(' ').collect();
        let &[
            _at,
            _client,
            accepted,
            _frontend,
            backend,
            _times,
            status,
            _bytes,
            "-",
            "-",
            termination,
            counts,
            _,
        ] = fields.as_slice()
        else {
            return None;
        };
        accepted.strip_prefix('[')?.strip_suffix(']')?;
        // Connections of all kinds, and retries last: with a `+` when the last of them was to another server.
        let retries = counts.rsplit('/').next()?;
        Some(Session {
            server: backend.split_once('/')?.1.to_owned(),
            status: status.parse().ok()?,
            termination: Some(termination).filter(|word| word.len() == 4)?.to_owned(),
            retries: retries.trim_start_matches('+').parse().ok()?,
            redispatched: retries.starts_with('+'),
            request: request.trim_end_matches('"').to_owned(),
        })
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(text: &str) -> Option<Session> {
        Line { at: Instant::now(), text: text.to_owned() }.session()
    }

    /// Exercises lines of a real HAProxy 2.6 so that each session's end is read, and nothing else is taken for one.
    #[test]
    fn sessions_of_a_log() {
        let killed = session(
            "2026-11-30T07:11:48.537337+00:00 127.0.0.1:60058 [30/Nov/2026:07:11:43.828] fe be/pod1 0/0/0/-1/4706 502 209 \
             - - DH-- 6/6/5/5/0 0/0 \"GET /sleep?seconds=9 HTTP/1.1\"",
        );
        let expected = Session {
            server: "pod1".to_owned(),
            status: 502,
            termination: "DH--".to_owned(),
            retries: 0,
            redispatched: false,
            request: "GET /sleep?seconds=9 HTTP/1.1".to_owned(),
        };
        assert_eq!(killed, Some(expected));
        let none = session(
            "2026-11-30T07:11:48.537337+00:00 127.0.0.1:60058 [30/Nov/2026:07:11:43.828] fe be/<NOSRV> 0/-1/-1/-1/0 503 217 \
             - - SC-- 1/1/0/0/+3 0/0 \"GET / HTTP/1.1\"",
        );
        let told = none.map(|one| (one.server, one.status, one.retries, one.redispatched));
        assert_eq!(told, Some(("<NOSRV>".to_owned(), 503, 3, true)));
        for other in [
            "2026-11-30T07:12:51.005467+00:00 Server be/pod1 is DOWN, reason: Layer7 wrong status, code: 503, info: \
             \"Service Unavailable\", check duration: 1ms. 0 active and 0 backup servers left.",
            "2026-11-30T07:11:48.534966+00:00 backend be has no server available!",
            "",
        ] {
            assert_eq!(session(other), None, "{other}");
        }
    }
}
