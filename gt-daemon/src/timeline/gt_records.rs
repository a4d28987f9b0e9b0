//! gt's own records: `timeline.jsonl`, judged anew, with the pod's name from `intervals.json` beside it.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::Path,
};

use super::{
    hc_log::short,
    inputs::{Artifact, InputError},
    lines,
    note::{Note, Notes},
};
use crate::drain::{
    fact::{Fact, Source, Timed},
    record::{Record, Summary},
    store::INTERVALS,
};

/// Facts of one record: the daemon writes no more than some 16,000.
const MOST: usize = 100_000;

/// Reads and judges a record.
pub fn read(artifact: &Artifact) -> Result<(Record, Vec<Note>), InputError> {
    let wrong = |cause| InputError::Unreadable { path: artifact.path.clone(), cause };
    let file = File::open(&artifact.path).map_err(wrong)?;
    let mut notes = Notes::on(&artifact.path.display().to_string());
    let beside = artifact.path.with_file_name(INTERVALS);
    let summary = summary(&beside, &mut notes);
    let mut record =
        judge(BufReader::new(file), artifact.ahead, summary.as_ref(), &mut notes).map_err(wrong)?;
    if let Some(summary) = &summary {
        record.hold_against(summary);
    }
    if let Some(summary) = summary
        && notes.is_whole()
        && summary.verdict != record.outcome()
    {
        let (then, now) = (summary.verdict.word(), record.outcome().word());
        notes.tell(
            None,
            format!("says {now} by its facts, and intervals.json beside it says {then}"),
            "one of them was changed, or written by another version of gt: the facts count",
        );
        record.verdict.reasons.push(format!("the record said {then} when it was written"));
    }
    Ok((record, notes.list()))
}

fn judge(file: impl BufRead, ahead: i64, summary: Option<&Summary>, notes: &mut Notes) -> io::Result<Record> {
    let mut facts = BTreeSet::new();
    lines::each(file, notes, |number, text, notes| {
        if facts.len() >= MOST {
            return notes.damaged(
                Some(number),
                format!("is beyond the first {MOST} facts"),
                "this is no record of one drain",
            );
        }
        match serde_json::from_str::<Timed>(text) {
            Ok(timed) => {
                facts.insert(Timed { ts: timed.ts.saturating_sub(ahead), ..timed });
            }
            Err(error) => notes.damaged(
                Some(number),
                format!("is no fact of gt's ({error}): {}", short(text)),
                "copy the record again; a timeline of another tool is made anew from the artifacts it came from",
            ),
        }
    })?;
    if !notes.is_whole() {
        let last = facts.last().map_or(0, |last: &Timed| last.ts);
        let why = "lines of the record are damaged or missing".to_owned();
        facts.insert(Timed { ts: last, fact: Fact::Gap { source: Source::Record, length_us: 0, why } });
    }
    let facts: Vec<Timed> = facts.into_iter().collect();
    let (namespace, pod, uid) =
        summary.map_or(("", "", ""), |summary| (&*summary.namespace, &*summary.pod, &*summary.uid));
    let left_out = summary.map_or(0, |summary| summary.left_out);
    let record = Record::of(namespace, pod, uid, facts.clone(), left_out);
    Ok(record.unwrap_or_else(|| Record::without_drain(pod, facts, left_out)))
}

/// What stands beside the facts. A record without it is judged by its facts; one whose is damaged may lack facts as well, and
/// nothing shows which.
fn summary(path: &Path, notes: &mut Notes) -> Option<Summary> {
    const LARGEST: u64 = 16 << 20;

    let meta = fs::metadata(path).ok()?;
    let read = || {
        if !meta.is_file() || meta.len() > LARGEST {
            return Err("it is no file of a few megabytes".to_owned());
        }
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    };
    match read() {
        Ok(summary) => Some(summary),
        Err(cause) => {
            notes.damaged(
                None,
                format!("has an {INTERVALS} beside it that cannot be read, so the pod's name is not known ({cause})"),
                "copy the record again, or the timeline alone",
            );
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{drain::verdict::Outcome, timeline::inputs::Kind};

    const GOOD: &str = include_str!("../../testdata/timeline/record/timeline.jsonl");

    fn outcome(text: &str) -> (Outcome, String) {
        let mut notes = Notes::on("timeline.jsonl");
        let record = judge(text.as_bytes(), 0, None, &mut notes).unwrap();
        (record.outcome(), notes.list().iter().map(ToString::to_string).collect())
    }

    /// Exercises a record the daemon wrote, whole, with a line of another tool, and cut off, so that only the whole one is
    /// protected, and what is wrong is named.
    #[test]
    fn whole_and_not() {
        assert_eq!(outcome(GOOD), (Outcome::Protected, String::new()));
        let foreign =
            format!("{GOOD}{{\"ts\":\"2026-05-31T07:12:53Z\",\"event\":\"tcp_rst\",\"host\":\"worker2\"}}\n");
        let (told, notes) = outcome(&foreign);
        assert!(told == Outcome::Inconclusive && notes.contains("is no fact of gt's"), "{notes}");
        let (told, notes) = outcome("");
        assert!(told == Outcome::Inconclusive && notes.contains("is empty"), "{notes}");
    }

    /// Exercises a record whose summary is damaged, so that nothing protected is claimed of it, and the cause is told.
    #[test]
    fn a_damaged_summary() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("timeline.jsonl");
        fs::write(&path, GOOD).unwrap();
        let artifact = Artifact { kind: Kind::Record, name: "it".to_owned(), path: path.clone(), ahead: 0 };
        let read = || read(&artifact).unwrap();
        assert_eq!(read().0.outcome(), Outcome::Protected);
        fs::write(path.with_file_name(INTERVALS), "{\"x\":1}").unwrap();
        let (record, notes) = read();
        let told: String = notes.iter().map(ToString::to_string).collect();
        assert_eq!(record.outcome(), Outcome::Inconclusive);
        assert!(told.contains("missing field"), "{told}");
    }

    proptest! {
        /// Exercises a record that is cut off anywhere, so that it is never protected.
        #[test]
        fn cut_off(at in any::<prop::sample::Index>()) {
            let at = at.index(GOOD.len());
            prop_assume!(GOOD.is_char_boundary(at));
            prop_assert_ne!(outcome(&GOOD[..at]).0, Outcome::Protected);
        }

        /// Exercises a record whose lines come in another order, so that nothing changes.
        #[test]
        fn any_order(order in Just(GOOD.lines().collect::<Vec<_>>()).prop_shuffle()) {
            prop_assert_eq!(outcome(&(order.join("\n") + "\n")).0, Outcome::Protected);
        }
    }
}
