//! What is told of the drains: words or JSON on stdout, and files.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::note::{Note, plain};
use crate::drain::{record::Record, store};

/// Why there are no files.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}: {cause}; give -o a directory that may be made and written to")]
pub struct OutputError {
    path: PathBuf,
    cause: io::Error,
}

/// For people: verdict, reasons and intervals of each drain.
#[must_use]
pub fn words(records: &[Record]) -> String {
    let mut out = String::new();
    for record in records {
        let summary = record.summary();
        let pod = if record.pod.is_empty() { "drain" } else { &record.pod };
        let began = summary.began.as_deref().map_or(String::new(), |began| format!(", began {began}"));
        out.push_str(&format!("{}: {}{began}\n", plain(pod), record.outcome().word()));
        for reason in &summary.reasons {
            out.push_str(&format!("  {}\n", plain(reason)));
        }
        let intervals = [
            ("drain_to_active_zero", summary.intervals.drain_to_active_zero),
            ("active_zero_to_lb_down", summary.intervals.active_zero_to_lb_down),
            ("lb_down_to_first_rst", summary.intervals.lb_down_to_first_rst),
        ];
        for (name, seconds) in intervals {
            let told = seconds.map_or("not known".to_owned(), |seconds| format!("{seconds:.6} s"));
            out.push_str(&format!("  {name:<26}{told}\n"));
        }
        let counts = &summary.evidence;
        out.push_str(&format!(
            "  {:<26}{} cut, {} given up by clients, {} uncertain, {} ended\n",
            "requests and connections", counts.cuts, counts.client_aborts, counts.uncertain, counts.ends
        ));
    }
    out
}

/// For programs: what `intervals.json` holds, a line a drain.
pub fn json(records: &[Record]) -> Result<String, serde_json::Error> {
    let lines: Result<Vec<_>, _> =
        records.iter().map(|record| serde_json::to_string(&record.summary())).collect();
    lines.map(|lines| lines.into_iter().map(|line| line + "\n").collect())
}

/// For stderr: what was wrong with the artifacts.
#[must_use]
pub fn notes(notes: &[Note]) -> String {
    notes.iter().map(|note| format!("gt-daemon: {note}\n")).collect()
}

/// Writes `timeline.jsonl` and `intervals.json`, of several drains in a directory each. Files of these names are replaced.
pub fn write(directory: &Path, records: &[Record]) -> Result<Vec<PathBuf>, OutputError> {
    let mut places = Vec::new();
    for record in records {
        let place = if records.len() == 1 { directory.to_owned() } else { directory.join(record.id()) };
        replace(&place, record).map_err(|cause| OutputError { path: place.clone(), cause })?;
        places.push(place);
    }
    Ok(places)
}

/// Each file is there as a whole or not at all.
fn replace(place: &Path, record: &Record) -> io::Result<()> {
    fs::create_dir_all(place)?;
    let unfinished = place.join(format!(".gt-unfinished-{}", std::process::id()));
    store::vacant(&unfinished)?;
    fs::create_dir(&unfinished)?;
    let written = store::fill(&unfinished, record).and_then(|()| {
        for file in [store::TIMELINE, store::INTERVALS] {
            fs::rename(unfinished.join(file), place.join(file))?;
        }
        Ok(())
    });
    fs::remove_dir_all(&unfinished)?;
    written
}
