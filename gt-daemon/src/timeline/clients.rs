//! `curl*.out`: what clients saw of their requests.
//!
//! A line with `http_code=`, `code=` or `http=`, or of a code alone, is an answer; `err=`, `whole=false`, and `exit=` on it or on a
//! later line tell that it was none or not whole, as does curl's own `curl: (52) ..`. JSON does as well.

use std::io::{self, BufRead};

use super::{hc_log::short, lines, note::Notes, stamped};
use crate::hc::log::fields;

/// Failures that are kept.
const MOST: usize = 16_384;

/// A request that did not end as it should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When it ended, where the client tells.
    pub ts: Option<i64>,
}

/// What the clients saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub answers: u64,
    pub failures: Vec<Failure>,
}

/// Reads one file. One that tells of no request is none that was read.
pub fn read(file: impl BufRead, notes: &mut Notes) -> io::Result<Seen> {
    let mut seen = Seen::default();
    // Whether the last answer has failed already: its exit code says the same once more.
    let mut failed = None;
    let last = lines::each_but_last(file, notes, |number, text, notes| {
        if !line(text, &mut seen, &mut failed) {
            let why = format!("tells an answer's code that is none: {}", short(text));
            notes.damaged(Some(number), why, AGAIN);
        }
    })?;
    if let Some(last) = last {
        line(&last, &mut seen, &mut failed);
    }
    if seen.answers == 0 && seen.failures.is_empty() && notes.is_whole() {
        notes.damaged(None, "tells how no request ended", AGAIN);
    }
    Ok(seen)
}

const AGAIN: &str =
    "have each request end with a line such as curl -w '\nhttp_code=%{http_code} exit=%{exitcode}\n' writes";

/// Takes what a line tells; `false` where it has an answer's code that is none.
fn line(text: &str, seen: &mut Seen, failed: &mut Option<bool>) -> bool {
    // What curl -v tells of its work.
    if text.starts_with(['<', '>', '*']) || text.starts_with("{ [") || text.starts_with("} [") {
        return true;
    }
    let fields = fields::of(text.as_bytes());
    let get = |names: &[&str]| {
        fields.iter().find(|(key, _)| names.contains(&key.as_str())).map(|(_, value)| value.as_str())
    };
    let begun = stamped::first(text).map(|(ts, _)| ts);
    let took = get(&["time_total", "t"]).and_then(|time| time.trim_end_matches('s').parse::<f64>().ok());
    let ts = begun.map(|begun| begun.saturating_add(microseconds(took.unwrap_or(0.0))));
    let exit = get(&["exit", "curl_exit", "exitcode"]).and_then(|exit| exit.parse::<i32>().ok());
    // The code alone, as curl -w '%{http_code}' writes it.
    let alone = (text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text);
    let mut is_code = true;
    let is_failure = if let Some(code) = get(&["http_code", "code", "http"]).or(alone) {
        let code = code.parse::<u16>();
        is_code = code.is_ok();
        let is_error = get(&["err"]).is_some_and(|error| !error.is_empty())
            || get(&["whole"]) == Some("false")
            || exit.is_some_and(|exit| exit != 0);
        seen.answers += 1;
        let is_failure = is_error || code.is_ok_and(|code| code >= 500 || code == 0);
        *failed = Some(is_failure);
        is_failure
    } else {
        let is_exit = exit.is_some_and(|exit| exit != 0) || text.starts_with("curl: (");
        let is_new = is_exit && *failed != Some(true);
        if is_new {
            *failed = Some(true);
        }
        is_new
    };
    if is_failure && seen.failures.len() < MOST {
        seen.failures.push(Failure { ts });
    }
    is_code
}

#[expect(clippy::cast_possible_truncation, reason = "bounded to a day before")]
fn microseconds(seconds: f64) -> i64 {
    (seconds.clamp(0.0, 86_400.0) * 1e6) as i64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(text: &str) -> (u64, Vec<Option<i64>>) {
        let seen = read(text.as_bytes(), &mut Notes::on("curl.out")).unwrap();
        (seen.answers, seen.failures.iter().map(|failure| failure.ts).collect())
    }

    /// Exercises the forms of the lab, of the captures and of the walkthrough, so that each failure counts once.
    #[test]
    fn forms() {
        let lab = "2026-11-30T07:00:00Z GET /sleep http_code=502 time_total=1.5 whole=true lines=1\n\
                   2026-11-30T07:00:00Z GET /stream http_code=200 time_total=0.5 whole=false lines=3\n\
                   2026-11-30T07:00:00Z GET /sleep http_code=200 time_total=0.5 whole=true lines=1\n";
        let at = 1_796_022_000_000_000;
        assert_eq!(seen(lab), (3, vec![Some(at + 1_500_000), Some(at + 500_000)]));
        assert_eq!(
            seen("< HTTP/1.1 502 Bad Gateway\n\nRESULT code=502 t=4.7 bytes=107 err=\n"),
            (1, vec![None])
        );
        assert_eq!(seen("RESULT code=200 t=4.7 bytes=44 err=transfer closed\n"), (1, vec![None]));
        assert_eq!(seen("RESULT code=200 t=15.0 bytes=6 err=\n"), (1, vec![]));
        assert_eq!(seen("http=502 t=8.25\nexit=0\n"), (1, vec![None]));
        assert_eq!(seen("http=200 t=8.25\nexit=92\n"), (1, vec![None]));
        assert_eq!(seen("http=000 t=8.25\nexit=7\n"), (1, vec![None]));
    }

    /// Exercises forms that other tools write, so that each failure counts, and what tells of no request is named.
    #[test]
    fn other_forms() {
        for (text, answers, failures) in [
            ("RESULT code=200 t=1 bytes=3 exit=18\n", 1, 1),
            ("502\n", 1, 1),
            ("200\n", 1, 0),
            ("{\"http_code\":502,\"exitcode\":0}\n", 1, 1),
            ("curl: (52) Empty reply from server\n", 0, 1),
            ("RESULT code=502 t=1 bytes=3 err=", 1, 1),
        ] {
            let (answered, failed) = seen(text);
            assert_eq!((answered, failed.len()), (answers, failures), "{text}");
        }
        for text in
            ["http_code: 502\n", "HTTP/1.1 502 Bad Gateway\n\n", "chunk 1/7\n", "code=5x2\n", "", "code=200"]
        {
            let mut notes = Notes::on("curl.out");
            read(text.as_bytes(), &mut notes).unwrap();
            assert!(!notes.is_whole(), "{text}");
        }
    }

    proptest! {
        /// Exercises any text, so that none panics.
        #[test]
        fn any_text(text in "(.{0,60}\n){0,4}") {
            let _whatever = seen(&text);
        }
    }
}
