//! `envoy-active.tsv`: what Envoy had in flight, a look a line: `<time>\t<name>: <number> <name>: <number> ..`.

use std::io::{self, BufRead};

use super::{hc_log::short, lines, note::Notes, stamped};
use crate::envoy::stat::Stat;

/// Changes that are kept; a look every 100 ms for half an hour.
const MOST: usize = 20_000;

/// A look: when, downstream and upstream; `None` for what it did not tell.
pub type Look = (i64, Option<u64>, Option<u64>);

/// Looks at which a number changed, and when the last look was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Active {
    pub changes: Vec<Look>,
    pub first: Option<i64>,
    pub last: Option<i64>,
}

/// Reads the looks.
pub fn read(file: impl BufRead, notes: &mut Notes) -> io::Result<Active> {
    let mut active = Active::default();
    lines::each(file, notes, |number, text, notes| {
        if text.trim().is_empty() || text.starts_with('#') {
            return;
        }
        let Some((ts, rest)) = stamped::first(text) else {
            return notes.damaged(
                Some(number),
                format!("begins with no time: {}", short(text)),
                "write UTC, as date -u +%FT%TZ does",
            );
        };
        let look = match sums(rest) {
            Sums::Told(downstream, upstream) => (ts, downstream, upstream),
            Sums::Silent => return,
            Sums::Bad(why) => {
                return notes.damaged(
                    Some(number),
                    format!("tells no number of requests: {why}"),
                    "copy the file again",
                );
            }
        };
        active.first = active.first.or(Some(ts));
        active.last = active.last.max(Some(ts));
        let is_new = active.changes.last().is_none_or(|(_, down, up)| (*down, *up) != (look.1, look.2));
        if is_new && active.changes.len() < MOST {
            active.changes.push(look);
        } else if is_new {
            notes.damaged(
                Some(number),
                format!("is beyond the first {MOST} changes"),
                "cut the file to the drain",
            );
        }
    })?;
    Ok(active)
}

enum Sums {
    Told(Option<u64>, Option<u64>),
    /// Nobody could ask, or no stat of interest is there.
    Silent,
    Bad(String),
}

fn sums(text: &str) -> Sums {
    let mut told = (None::<u64>, None::<u64>);
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_suffix(':') else { continue };
        let stat = Stat::of_name(name).map(|(stat, scope)| (stat, scope == "admin"));
        let Some((stat @ (Stat::DownstreamRqActive | Stat::UpstreamRqActive), false)) = stat else {
            continue;
        };
        let value = words.next().unwrap_or_default();
        let Ok(value) = value.parse::<u64>() else { return Sums::Bad(format!("{name} is {value:?}")) };
        let sum = if stat == Stat::DownstreamRqActive { &mut told.0 } else { &mut told.1 };
        *sum = Some(sum.unwrap_or(0).saturating_add(value));
    }
    if told == (None, None) { Sums::Silent } else { Sums::Told(told.0, told.1) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn looks(text: &str) -> (Active, Notes) {
        let mut notes = Notes::on("envoy-active.tsv");
        let active = read(text.as_bytes(), &mut notes).unwrap();
        (active, notes)
    }

    /// Exercises looks of several clusters, a failed one and the admin listener's, so that sums are right and only changes
    /// are kept.
    #[test]
    fn sums_of_looks() {
        let (active, notes) = looks(
            "2026-11-30T07:00:00Z\tcluster.a.upstream_rq_active: 1 cluster.b.upstream_rq_active: 2 http.x.downstream_rq_active: 3 \
             http.admin.downstream_rq_active: 1\n\
             2026-11-30T07:00:01Z\texec-failed\n\
             2026-11-30T07:00:02Z\tcluster.a.upstream_rq_active: 3 http.x.downstream_rq_active: 3\n\
             2026-11-30T07:00:03Z\thttp.x.downstream_rq_active: 0 cluster.a.upstream_rq_active_overflow: 7\n",
        );
        assert!(notes.is_whole());
        let told: Vec<_> = active.changes.iter().map(|(_, down, up)| (*down, *up)).collect();
        assert_eq!(told, [(Some(3), Some(3)), (Some(0), None)]);
        assert_eq!(active.last.unwrap() - active.first.unwrap(), 3_000_000);
    }

    /// Exercises looks that are cut off, so that no part of a number passes for one.
    #[test]
    fn cut_off() {
        let (active, notes) = looks(
            "x\n2026-11-30T07:00:00Z\thttp.x.downstream_rq_active: \n2026-11-30T07:00:01Z\thttp.x.downstream_rq_active: 1",
        );
        assert!(active.changes.is_empty());
        let told: Vec<_> = notes.list().iter().map(|note| note.line.unwrap()).collect();
        assert_eq!(told, [1, 2, 3]);
    }

    proptest! {
        /// Exercises any text, so that none panics.
        #[test]
        fn any_text(text in "(2026-11-30T07:00:00Z\t)?.{0,80}\n") {
            let _whatever = looks(&text);
        }
    }
}
