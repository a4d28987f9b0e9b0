//! `POST /lb`: the word of an LB that cannot be asked, or of whoever watches it.
//!
//! The body is one line, `[BACKEND/SERVER] STATUS at TIME`, such as `igw/node-1 DOWN at 2026-11-30T07:12:34.000001Z`: a status as
//! HAProxy has it (`UP`, `DRAIN`, `DOWN`, `MAINT` ..) and the LB's own time, RFC 3339. Without a server it is about every pod that
//! is watched here. It is for the local door only: whoever reaches it can change what a drain is called.

use axum::{
    Router,
    extract::{DefaultBodyLimit, State},
    http::StatusCode,
    routing::post,
};
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

use super::{reader::Heard, word::Serving};
use crate::clock::Moment;

/// Bytes of a line.
const MAX_LINE: usize = 1024;

/// How far ahead of this machine's clock an LB's may be, and how old a word may be, microseconds.
const AHEAD: i64 = 5_000_000;
const OLD: i64 = 600_000_000;

/// A word that was brought.
#[derive(Debug)]
pub struct Note {
    /// `None` for all pods here.
    pub server: Option<String>,
    pub status: String,
    /// UTC, microseconds.
    pub at: i64,
    /// Gets the names of the pods it was about.
    pub reply: oneshot::Sender<Vec<String>>,
}

/// `POST /lb`, for a server that listens on this machine alone; what is brought goes to `heard`.
pub fn router(heard: mpsc::Sender<Heard>) -> Router {
    Router::new().route("/lb", post(lb)).layer(DefaultBodyLimit::max(MAX_LINE)).with_state(heard)
}

async fn lb(State(heard): State<mpsc::Sender<Heard>>, body: String) -> (StatusCode, String) {
    let Line { server, status, at } = match line(&body, Moment::now().utc_us) {
        Ok(line) => line,
        Err(why) => return (StatusCode::BAD_REQUEST, format!("{why}\n")),
    };
    let (reply, answer) = oneshot::channel();
    let note = Note { server: server.clone(), status, at, reply };
    let pods = match heard.try_send(Heard::Note(note)) {
        Ok(()) => answer.await.ok(),
        Err(_) => None,
    };
    match pods {
        None => (StatusCode::SERVICE_UNAVAILABLE, "gt-daemon is busy or stops: bring it again\n".to_owned()),
        Some(pods) if pods.is_empty() => {
            let server = server.as_deref().unwrap_or("this LB");
            (
                StatusCode::NOT_FOUND,
                format!("no pod that is watched here is behind {server}: see --lb-server\n"),
            )
        }
        Some(pods) => (StatusCode::OK, format!("noted for {}\n", pods.join(", "))),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Line {
    server: Option<String>,
    status: String,
    at: i64,
}

/// Reads the line; `now`: UTC, microseconds.
fn line(text: &str, now: i64) -> Result<Line, String> {
    const FORM: &str =
        "bring one line: [BACKEND/SERVER] STATUS at TIME, such as igw/node-1 DOWN at 2026-11-30T07:12:34.5Z";

    let (words, time) = text.trim().rsplit_once(" at ").ok_or(FORM)?;
    let (server, status) = match words.trim().split_once(' ') {
        Some((first, rest)) if first.contains('/') => (Some(first.to_owned()), rest.trim()),
        _ => (None, words.trim()),
    };
    if Serving::of(status).is_none() {
        return Err(format!("{status:?} is no status: use UP, NOLB, DRAIN, DOWN or MAINT; {FORM}"));
    }
    let at: Timestamp =
        time.trim().parse().map_err(|_| format!("{time:?} is no time: use RFC 3339; {FORM}"))?;
    let at = at.as_microsecond();
    if at > now.saturating_add(AHEAD) || at < now.saturating_sub(OLD) {
        return Err(format!(
            "{time} is not about now: are both clocks right, and is it less than ten minutes old?"
        ));
    }
    Ok(Line { server, status: status.to_owned(), at })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_796_000_000_000_000;

    fn stamp(at: i64) -> String {
        crate::drain::fact::stamp(at)
    }

    /// Exercises lines with and without a server, so that server, status and time are told apart.
    #[test]
    fn lines() {
        let of = |words: &str| line(&format!("{words} at {}\n", stamp(NOW - 7)), NOW);
        let expected = |server: Option<&str>, status: &str| {
            Ok(Line { server: server.map(str::to_owned), status: status.to_owned(), at: NOW - 7 })
        };
        assert_eq!(of("DOWN"), expected(None, "DOWN"));
        assert_eq!(of("igw/node-1 DOWN"), expected(Some("igw/node-1"), "DOWN"));
        assert_eq!(of("igw/node-1 UP 1/2"), expected(Some("igw/node-1"), "UP 1/2"));
        assert_eq!(of("UP 1/2"), expected(None, "UP 1/2"));
    }

    /// Exercises what is no word on now, so that it is refused with what to do.
    #[test]
    fn refused() {
        let wrong = [
            String::new(),
            "DOWN".to_owned(),
            "DOWN at noon".to_owned(),
            format!("GONE at {}", stamp(NOW)),
            format!("DOWN at {}", stamp(NOW + 6_000_000)),
            format!("DOWN at {}", stamp(NOW - 601_000_000)),
        ];
        for text in wrong {
            assert!(line(&text, NOW).is_err(), "{text}");
        }
    }

    proptest! {
        /// Exercises any text, so that none panics.
        #[test]
        fn any_text(text in "\\PC{0,80}") {
            let _whatever = line(&text, NOW);
        }
    }
}
