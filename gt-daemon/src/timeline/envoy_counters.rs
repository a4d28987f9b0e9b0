//! Envoy's stats before and after: `stats_before.txt`, `stats_after.txt`, in any of Envoy's forms.

use std::io::{self, Read};

use super::note::Notes;
use crate::envoy::{form::Form, scope::Ignored, stat::Stat, sums::Sums};

/// A larger answer is none of an Envoy's.
const LARGEST: u64 = 64 << 20;

/// What an Envoy had counted at one instant. What it does not tell is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub requests: Option<u64>,
    /// Connections that ended with a request in flight.
    pub connections: Option<u64>,
    /// Requests that were reset from outside, and by Envoy itself.
    pub reset: Option<u64>,
    pub reset_itself: Option<u64>,
    /// Requests in flight.
    pub active: Option<u64>,
    /// For how long it had run, seconds.
    pub uptime: Option<u64>,
    /// Whether the server's own stats are there, which stand behind the listeners'.
    pub server: bool,
}

/// Reads one answer; `None` when it is none.
pub fn read(file: impl Read, notes: &mut Notes) -> io::Result<Option<Counts>> {
    let mut body = Vec::new();
    file.take(LARGEST).read_to_end(&mut body)?;
    let again = "ask Envoy's admin port for /stats once more, before it ends";
    if body.is_empty() {
        notes.damaged(None, "is empty: Envoy was not there to be asked, or nobody asked", again);
        return Ok(None);
    }
    match Sums::read(form(&body), &body, &Ignored::default()) {
        Ok(sums) => {
            let counts = Counts {
                requests: sums.get(Stat::DownstreamRqTotal),
                connections: sums.get(Stat::DownstreamCxDestroyActiveRq),
                reset: sums.get(Stat::DownstreamRqRxReset),
                reset_itself: sums.get(Stat::DownstreamRqTxReset),
                active: sums.get(Stat::DownstreamRqActive),
                uptime: sums.get(Stat::ServerUptime),
                server: sums.get(Stat::ServerLive).is_some(),
            };
            if counts.requests.is_none() || counts.connections.is_none() || counts.reset.is_none() {
                notes.damaged(
                    None,
                    "has no counters of a listener's requests",
                    "ask for /stats without a filter",
                );
                return Ok(None);
            }
            Ok(Some(counts))
        }
        Err(error) => {
            notes.damaged(None, format!("is no whole list of Envoy's stats ({error})"), again);
            Ok(None)
        }
    }
}

fn form(body: &[u8]) -> Form {
    match body.trim_ascii_start().first() {
        Some(b'{') => Form::Json,
        Some(b'#') => Form::Prometheus,
        _ => Form::Text,
    }
}

/// Whether one Envoy may have told both, with so many microseconds between them at least. Uptimes are whole seconds, and one that
/// is not told may be any.
#[must_use]
pub fn may_have_lived(before: &Counts, after: &Counts, apart: i64) -> bool {
    let lived = before.uptime.zip(after.uptime).map(|(before, after)| after.saturating_sub(before));
    lived.is_none_or(|lived| lived.saturating_add(2) >= apart.max(0).unsigned_abs() / 1_000_000)
}

/// Requests that were cut between two looks; `None` when the counters cannot tell.
#[must_use]
pub fn cut(before: &Counts, after: &Counts) -> Option<u64> {
    let rise = |of: fn(&Counts) -> Option<u64>| of(after)?.checked_sub(of(before)?);
    rise(|counts| counts.requests)?;
    if before.uptime.zip(after.uptime).is_some_and(|(before, after)| after < before) {
        // Another Envoy, which has counted as much by now.
        return None;
    }
    if before.server && !after.server {
        // The end of the list is missing, and more may be.
        return None;
    }
    // One connection of HTTP/1 is one request, and both count it; streams of HTTP/2 are resets alone.
    let from_outside = rise(|counts| counts.connections)?.max(rise(|counts| counts.reset)?);
    let itself = rise(|counts| counts.reset_itself.or(Some(0)))?;
    Some(from_outside.saturating_add(itself))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIX: &[u8] = include_bytes!("../../testdata/envoy/cut_six_h1.txt");
    const TWO: &[u8] = include_bytes!("../../testdata/envoy/cut_two_h2.txt");

    fn counts(body: &[u8]) -> (Option<Counts>, String) {
        let mut notes = Notes::on("stats_after.txt");
        let counts = read(body, &mut notes).unwrap();
        (counts, notes.list().iter().map(ToString::to_string).collect())
    }

    /// Exercises recorded answers after kills over HTTP/1 and HTTP/2, so that each cut is one.
    #[test]
    fn recorded() {
        let none = Counts {
            requests: Some(0),
            connections: Some(0),
            reset: Some(0),
            reset_itself: Some(0),
            active: Some(0),
            uptime: None,
            server: false,
        };
        for (body, cuts) in [(SIX, 6), (TWO, 2)] {
            let after = counts(body).0.unwrap();
            assert_eq!(cut(&none, &after), Some(cuts));
            assert_eq!(cut(&after, &after), Some(0));
            assert_eq!(cut(&after, &none), None, "Envoy began anew");
            let ran = |uptime: u64| Counts { uptime: Some(uptime), ..after };
            assert!(
                may_have_lived(&ran(0), &ran(9), 9_900_000) && !may_have_lived(&ran(0), &ran(2), 9_900_000)
            );
            assert_eq!((cut(&ran(9), &ran(2)), cut(&ran(2), &ran(9))), (None, Some(0)));
        }
    }

    /// Exercises what is no answer, so that it is named and never passes for zero.
    #[test]
    fn no_answers() {
        for (body, why) in [
            (&b""[..], "is empty"),
            (b"<html>404</html>\n", "no whole list"),
            (b"http.a.downstream_rq_total: 1\n", "no counters"),
            (b"http.a.downstream_rq_total: 1\nhttp.a.downstream_rq_rx_re", "no whole list"),
        ] {
            let (counts, told) = counts(body);
            assert!(counts.is_none() && told.contains(why), "{told}");
        }
    }

    proptest! {
        /// Exercises an answer cut off anywhere but at the end of a line, so that it counts nothing.
        #[test]
        fn cut_off(at in 1_usize..SIX.len()) {
            let body = &SIX[..at];
            prop_assume!(!body.ends_with(b"\n"));
            prop_assert_eq!(counts(body).0, None);
        }
    }
}
