//! `curl*.out`: what clients saw of their requests.
//!
//! A line with `http_code=`, `code=` or `http=` is an answer; `err=`, `whole=false` and `exit=` on a later line tell that it
//! was none or not whole.

use std::io::{self, BufRead};

use super::{lines, note::Notes, stamped};
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

/// Reads one file.
pub fn read(file: impl BufRead, notes: &mut Notes) -> io::Result<Seen> {
    let mut seen = Seen::default();
    // Whether the last answer has failed already: its exit code says the same once more.
    let mut failed = None;
    lines::each(file, notes, |_, text, _| {
        let fields = fields::of(text.as_bytes());
        let get = |names: &[&str]| {
            fields.iter().find(|(key, _)| names.contains(&key.as_str())).map(|(_, value)| value.as_str())
        };
        let is_curls =
            text.starts_with('<') || text.starts_with('>') || text.starts_with('{') || text.starts_with('*');
        if is_curls {
            return;
        }
        let begun = stamped::first(text).map(|(ts, _)| ts);
        let took = get(&["time_total", "t"]).and_then(|time| time.trim_end_matches('s').parse::<f64>().ok());
        let ts = begun.map(|begun| begun.saturating_add(microseconds(took.unwrap_or(0.0))));
        if let Some(code) = get(&["http_code", "code", "http"]).and_then(|code| code.parse::<u16>().ok()) {
            seen.answers += 1;
            let is_error =
                get(&["err"]).is_some_and(|error| !error.is_empty()) || get(&["whole"]) == Some("false");
            failed = Some(code >= 500 || code == 0 || is_error);
            if failed == Some(true) && seen.failures.len() < MOST {
                seen.failures.push(Failure { ts });
            }
        } else if let Some(exit) = get(&["exit", "curl_exit"]).and_then(|exit| exit.parse::<i32>().ok())
            && exit != 0
            && failed != Some(true)
            && seen.failures.len() < MOST
        {
            failed = Some(true);
            seen.failures.push(Failure { ts });
        }
    })?;
    Ok(seen)
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

    proptest! {
        /// Exercises any text, so that none panics.
        #[test]
        fn any_text(text in "(.{0,60}\n){0,4}") {
            let _whatever = seen(&text);
        }
    }
}
