//! `haproxy-stat*.csv`: HAProxy's statistics of servers, a look a line, with the time of the look in a column `ts`.
//!
//! Columns are found by their names, separated by commas or tabs.

use std::{
    collections::BTreeMap,
    io::{self, BufRead},
};

use csv::{ReaderBuilder, StringRecord};

use super::{hc_log::short, lines, note::Notes, stamped};
use crate::lb::word::Serving;

/// Looks that are kept, of all servers together.
const MOST: usize = 200_000;

/// What HAProxy said of a server at one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    pub ts: i64,
    pub status: String,
    pub serving: Option<Serving>,
    /// Whether the last check was answered; so it is taken where there is no column `check_status`.
    pub by_answer: bool,
    /// For how long it is what it is, seconds: `lastchg`.
    pub since: Option<u64>,
    /// Sessions now.
    pub sessions: Option<u64>,
    /// Answers that were none or broken off, since HAProxy began to count: `eresp` and `srv_abrt`, the larger one, since
    /// some of them are in both.
    pub broken: Option<u64>,
}

/// Looks by server (`BACKEND/SERVER`), in order of time.
pub type Looks = BTreeMap<String, Vec<Look>>;

/// Reads the looks.
pub fn read(file: impl BufRead, notes: &mut Notes) -> io::Result<Looks> {
    let (mut looks, mut columns, mut count) = (Looks::new(), None::<Columns>, 0);
    lines::each(file, notes, |number, text, notes| {
        // Spreadsheets write a mark of byte order before the header.
        let line = text.trim_start_matches('\u{feff}').trim_start_matches("# ");
        if line.contains("pxname") && line.contains("svname") {
            columns = Columns::of(line);
            if columns.is_none() {
                let why = "names no column `ts`, `pxname`, `svname` or `status`, or one of them twice";
                notes.damaged(
                    Some(number),
                    why,
                    "write the time of each look before its row, and name that column ts",
                );
            }
            return;
        }
        let Some(columns) = &columns else {
            if !text.is_empty() {
                notes.damaged(
                    Some(number),
                    "stands below no header",
                    "keep HAProxy's first line, `# pxname,svname,..`",
                );
            }
            return;
        };
        let row = match columns.row(line) {
            Ok(row) => row,
            Err(_) if text.is_empty() => return,
            Err(why) => {
                return notes.damaged(Some(number), format!("{why}: {}", short(text)), "copy the file again");
            }
        };
        let Some((server, look)) = row else { return };
        if look.serving.is_none() && look.status != "no check" {
            let why = format!("tells of a status that HAProxy does not have: {}", short(&look.status));
            notes.damaged(Some(number), why, "copy the file again");
        }
        if count < MOST {
            count += 1;
            looks.entry(server).or_default().push(look);
        } else {
            notes.damaged(
                Some(number),
                format!("is beyond the first {MOST} rows"),
                "cut the file to the drain",
            );
        }
    })?;
    for looks in looks.values_mut() {
        looks.sort_by_key(|look| look.ts);
    }
    Ok(looks)
}

#[derive(Debug)]
struct Columns {
    separator: u8,
    count: usize,
    ts: usize,
    backend: usize,
    server: usize,
    status: usize,
    check: Option<usize>,
    since: Option<usize>,
    sessions: Option<usize>,
    eresp: Option<usize>,
    srv_abrt: Option<usize>,
}

impl Columns {
    fn of(header: &str) -> Option<Self> {
        let separator = if header.contains('\t') { b'\t' } else { b',' };
        let header = record(header, separator)?;
        let column = |name: &str| {
            let mut places =
                header.iter().enumerate().filter(|(_, column)| column.trim() == name).map(|(at, _)| at);
            places.next().filter(|_| places.next().is_none())
        };
        Some(Self {
            separator,
            count: header.len(),
            ts: column("ts")?,
            backend: column("pxname")?,
            server: column("svname")?,
            status: column("status")?,
            check: column("check_status"),
            since: column("lastchg"),
            sessions: column("scur"),
            eresp: column("eresp"),
            srv_abrt: column("srv_abrt"),
        })
    }

    /// `None` for a row that is no server's.
    fn row(&self, line: &str) -> Result<Option<(String, Look)>, String> {
        let row = record(line, self.separator).ok_or("is no row")?;
        if row.len() != self.count {
            return Err(format!("has {} fields, not {}", row.len(), self.count));
        }
        let field = |place: usize| row.get(place).unwrap_or_default().trim();
        let number = |place: Option<usize>| match place.map(field) {
            None | Some("") => Ok(None),
            Some(text) => text.parse::<u64>().map(Some).map_err(|_| "has a number that is none".to_owned()),
        };
        if matches!(field(self.server), "FRONTEND" | "BACKEND") {
            return Ok(None);
        }
        let ts = stamped::instant(field(self.ts)).ok_or("begins with no time in UTC")?;
        let status = field(self.status).to_owned();
        let look = Look {
            ts,
            serving: Serving::of(&status),
            by_answer: self.check.is_none_or(|check| {
                matches!(field(check).trim_start_matches("* "), "L7OK" | "L7STS" | "L7OKC")
            }),
            status,
            since: number(self.since)?,
            sessions: number(self.sessions)?,
            broken: number(self.eresp)?
                .zip(number(self.srv_abrt)?)
                .map(|(errors, aborts)| errors.max(aborts)),
        };
        Ok(Some((format!("{}/{}", field(self.backend), field(self.server)), look)))
    }
}

fn record(line: &str, separator: u8) -> Option<StringRecord> {
    let mut reader =
        ReaderBuilder::new().has_headers(false).delimiter(separator).from_reader(line.as_bytes());
    reader.records().next()?.ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "# ts,pxname,svname,scur,status,econ,eresp,srv_abrt\n";

    fn looks(text: &str) -> (Looks, String) {
        let mut notes = Notes::on("haproxy-stat-timeline.csv");
        let looks = read(text.as_bytes(), &mut notes).unwrap();
        (looks, notes.list().iter().map(ToString::to_string).collect())
    }

    /// Exercises columns in another order, tabs, and rows of no server, so that each value gets its own meaning.
    #[test]
    fn columns_by_name() {
        let row = "2026-11-30T07:00:00Z,be,pod1,6,UP 1/2,0,3,2\n2026-11-30T07:00:00Z,be,BACKEND,6,UP,0,3,2\n";
        let (comma, told) = looks(&format!("{HEADER}{row}"));
        assert_eq!(told, "");
        let look = &comma["be/pod1"][0];
        assert_eq!(
            (look.serving, look.sessions, look.broken, comma.len()),
            (Some(Serving::Up), Some(6), Some(3), 1)
        );
        let (marked, told) = looks(&format!("\u{feff}{HEADER}{row}"));
        assert!(marked == comma && told.is_empty(), "{told}");
        let (tab, _) = looks("ts\tsvname\tpxname\tstatus\n2026-11-30T07:00:00Z\tpod1\tbe\tDOWN\n");
        let look = &tab["be/pod1"][0];
        assert_eq!((look.serving, look.sessions, look.broken), (Some(Serving::Down), None, None));
    }

    /// Exercises a row that is cut off, an unknown status, numbers that are none and files without times, so that each is
    /// named, and none passes for DOWN.
    #[test]
    fn bad_rows() {
        for (text, why) in [
            ("2026-11-30T07:00:00Z,be,pod1,6,DOW\n", "line 2: has 5 fields, not 8"),
            ("2026-11-30T07:00:00Z,be,pod1,6,DOW,0,0,0\n", "line 2: tells of a status"),
            ("2026-11-30T07:00:00Z,be,pod1,x,DOWN,0,0,0\n", "line 2: has a number that is none"),
            ("07:00:00,be,pod1,6,DOWN,0,0,0\n", "line 2: begins with no time"),
            ("2026-11-30T07:00:00Z,be,pod1,6,DOWN,0,0,0", "line 2: has no end"),
        ] {
            let (looks, told) = looks(&format!("{HEADER}{text}"));
            let down = looks.values().flatten().any(|look| look.serving == Some(Serving::Down));
            assert!(told.contains(why) && !down, "{told}");
        }
        assert!(looks("# pxname,svname,status\nbe,pod1,UP\n").1.contains("line 1: names no column `ts`"));
        assert!(looks("be,pod1,UP\n").1.contains("below no header"));
    }

    proptest! {
        /// Exercises any text below a header, so that none panics.
        #[test]
        fn any_text(text in "(.{0,60}\n){0,4}") {
            let _whatever = looks(&format!("{HEADER}{text}"));
            let _whatever = looks(&text);
        }

        /// Exercises a file cut off anywhere, so that nothing passes for DOWN that was not.
        #[test]
        fn cut_off(at in 0_usize..140) {
            let text = format!("{HEADER}2026-11-30T07:00:00Z,be,pod1,6,UP,0,0,0\n2026-11-30T07:00:01Z,be,pod1,6,UP 1/2,0,0,0\n");
            let looks = looks(text.get(..at.min(text.len())).unwrap_or_default()).0;
            prop_assert!(looks.values().flatten().all(|look| look.serving == Some(Serving::Up)));
        }
    }
}
