//! Where a run's files go: `target/lab/<time>/<scenario>/`, in the layout that the walkthrough's scripts had.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context as _, Result};

use crate::{cargo, stage::clock};

/// The file of HAProxy's statistics.
pub(super) const STAT: &str = "haproxy-stat-timeline.csv";

/// The columns of HAProxy's statistics that are sampled.
const COLUMNS: [&str; 12] = [
    "pxname",
    "svname",
    "scur",
    "status",
    "chkfail",
    "chkdown",
    "lastchg",
    "check_status",
    "econ",
    "eresp",
    "wretr",
    "srv_abrt",
];

/// The directory of this call, not made yet: `target/lab/20261130-071143`.
pub(super) fn directory() -> PathBuf {
    let now = clock::utc(SystemTime::now());
    let digits: String = now.chars().filter(char::is_ascii_digit).take(14).collect();
    let (day, time) = digits.split_at(8.min(digits.len()));
    cargo::target_dir().join("lab").join(format!("{day}-{time}"))
}

/// Makes a directory for one round.
pub(super) fn make(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))
}

/// Adds to a file.
pub(super) fn append(file: &Path, text: &str) -> Result<()> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .and_then(|mut out| out.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// The head of a file with samples of HAProxy's statistics.
pub(super) fn stat_head() -> String {
    format!("# ts,{}\n", COLUMNS.join(","))
}

/// The rows of servers in HAProxy's statistics, with a time before each.
pub(super) fn stat_rows(stamp: &str, csv: &str) -> Option<String> {
    let mut lines = csv.lines();
    let header: Vec<_> = lines.next()?.trim_start_matches("# ").split(',').collect();
    let at = COLUMNS.map(|column| header.iter().position(|name| *name == column));
    let mut rows = String::new();
    for line in lines {
        let fields: Vec<_> = line.split(',').collect();
        let field = |at: Option<usize>| at.and_then(|at| fields.get(at)).copied().unwrap_or_default();
        let row = at.map(field);
        if !row[1].is_empty() && !["FRONTEND", "BACKEND"].contains(&row[1]) {
            rows.push_str(&format!("{stamp},{}\n", row.join(",")));
        }
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises statistics whose columns stand in another order so that each value gets its own name.
    #[test]
    fn rows_by_their_names() {
        let csv = "# svname,pxname,status,scur,wretr,\nFRONTEND,fe,OPEN,1,,\nworker1-0,gateway,UP 1/2,3,2,\n";
        assert_eq!(stat_rows("T", csv).unwrap(), "T,gateway,worker1-0,3,UP 1/2,,,,,,,2,\n");
        assert_eq!(stat_rows("T", ""), None);
        assert_eq!(stat_head().split(',').count(), COLUMNS.len() + 1);
    }
}
