//! `gt-daemon drains`: the last drains, by daemons or by records in files.

use std::{
    fs,
    io::{self, ErrorKind, Write as _},
    path::Path,
    process::ExitCode,
};

use anyhow::Context as _;

use crate::{
    api::routes::Listed,
    cli::client::{DrainsOptions, DrainsOutput},
    client::Way,
    drain::{record::Summary, store},
    timeline::note::plain,
};

/// Bytes of a summary at most: it names all gaps of its drain.
const LONGEST: u64 = 16 << 20;

/// Lists them. Exit code 0, also when there are none.
pub fn drains(options: &DrainsOptions) -> anyhow::Result<ExitCode> {
    let drains = match &options.record {
        Some(dir) => recorded(dir)?,
        None => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("cannot start; is the process or memory limit of this machine reached?")?;
            runtime.block_on(async { Way::open(options.client.choice()).await?.drains().await })?
        }
    };
    let text = match options.output {
        DrainsOutput::Json => serde_json::to_string_pretty(&drains)? + "\n",
        DrainsOutput::Table => table(&drains),
    };
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to the standard output")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The records below a directory, the oldest first.
fn recorded(dir: &Path) -> anyhow::Result<Vec<Listed>> {
    let ids = store::ids(dir).with_context(|| {
        format!("cannot read {}; give --record the directory that the daemon has", dir.display())
    })?;
    if ids.is_empty() {
        let why = "has no records, which are directories named <begin>_<namespace>_<pod>_<uid>; give --record the one above them";
        eprintln!("gt-daemon: {}", plain(&format!("{} {why}", dir.display())));
    }
    let mut drains = Vec::new();
    for id in ids {
        let path = dir.join(&id).join(store::INTERVALS);
        match summary(&path) {
            Ok(summary) => drains.push(Listed { id, node: None, summary }),
            // One that is unreadable hides no other.
            Err(error) => {
                eprintln!("gt-daemon: {}", plain(&format!("{} is passed over: {error:#}", path.display())));
            }
        }
    }
    Ok(drains)
}

fn summary(path: &Path) -> anyhow::Result<Summary> {
    let length = fs::metadata(path)?.len();
    anyhow::ensure!(length <= LONGEST, "it has {length} bytes, which no record has");
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// Columns as wide as their widest cell.
fn table(drains: &[Listed]) -> String {
    let seconds = |seconds: Option<f64>| seconds.map_or_else(|| "-".to_owned(), |s| format!("{s:.3}"));
    let mut rows = vec![
        ["BEGAN", "POD", "VERDICT", "CUTS", "TO ACTIVE ZERO", "TO LB DOWN", "WHY"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(drains.iter().map(|Listed { summary, .. }| {
        vec![
            summary.began.clone().unwrap_or_else(|| "-".to_owned()),
            format!("{}/{}", summary.namespace, summary.pod),
            summary.verdict.word().to_owned(),
            summary.evidence.cuts.to_string(),
            seconds(summary.intervals.drain_to_active_zero),
            seconds(summary.intervals.active_zero_to_lb_down),
            summary.reasons.first().cloned().unwrap_or_default(),
        ]
    }));
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..6).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = widths.get(column).copied().unwrap_or(0);
            let cell = plain(cell);
            format!("{cell:width$}")
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::{
        fact::{Fact, Timed},
        record::Record,
    };

    fn record(second: i64) -> Record {
        let deleted = Timed { ts: second * 1_000_000, fact: Fact::PodDeleted { grace_seconds: 1 } };
        Record::of("edge", "igw", "u", vec![deleted], 0).unwrap()
    }

    /// Exercises a directory with records, one that is damaged, and something else, so that what can be read is listed.
    #[test]
    fn records_in_files() {
        let dir = tempfile::tempdir().unwrap();
        let store = store::Store::open(dir.path().to_owned(), 10).unwrap();
        let [first, damaged, last] = [10, 20, 30].map(|second| store.write(&record(second)).unwrap());
        fs::write(damaged.join("intervals.json"), "{").unwrap();
        fs::create_dir(dir.path().join("lost+found")).unwrap();
        let ids: Vec<_> = recorded(dir.path()).unwrap().into_iter().map(|listed| listed.id).collect();
        let names = [first, last].map(|place| place.file_name().unwrap().to_str().unwrap().to_owned());
        assert_eq!(ids, names);
        assert_eq!(ids[0], record(10).id());
        assert!(recorded(&dir.path().join("none")).unwrap_err().to_string().contains("--record"));
    }

    /// Exercises a record with a terminal's commands in it, so that they stay text in one line.
    #[test]
    fn no_commands() {
        let mut summary = record(10).summary();
        summary.pod = "igw\u{1b}[2J\n".to_owned();
        let told = table(&[Listed { id: String::new(), node: None, summary }]);
        assert!(told.contains("edge/igw\u{fffd}[2J\u{fffd}") && told.lines().count() == 2, "{told:?}");
    }

    /// Exercises the table, with what is not known and with nothing in it.
    #[test]
    fn tables() {
        let listed = Listed { id: "x".to_owned(), node: None, summary: record(10).summary() };
        let text = table(&[listed]);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[1].starts_with("1970-01-01T00:00:10.000000Z  edge/igw  inconclusive  0"), "{text}");
        assert_eq!(lines[0].find("VERDICT"), lines[1].find("inconclusive"));
        assert_eq!(table(&[]).lines().count(), 1);
    }
}
