//! Records as files: a directory of `--record`, or a `timeline.jsonl` alone. Facts are judged again; what cannot be read of
//! them is a gap, so that no verdict claims more than is there.

use std::{
    fs::File,
    io::{self, ErrorKind, Read as _},
    path::{Path, PathBuf},
};

use super::text::shortened;
use crate::drain::{
    fact::{Fact, Source, Timed},
    record::{Record, Summary},
    store::{INTERVALS, TIMELINE},
};

/// A timeline is at most so long: a record of gt's own has some 4 MB.
const MOST_BYTES: u64 = 64 << 20;

/// A record that was read, and what is to be said of it.
#[derive(Debug)]
pub struct Input {
    pub record: Record,
    pub remarks: Vec<String>,
}

/// Why there is no record.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error("cannot read {path}: {cause}; give a directory that --record has made, or a timeline.jsonl")]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error("{path} is longer than {} MB: it is no timeline of one drain; give one", MOST_BYTES >> 20)]
    TooLong { path: PathBuf },
    #[error("{path} has no fact of a drain: {cause}; give a timeline.jsonl as docs/verdicts.md has it")]
    NoFacts { path: PathBuf, cause: String },
    #[error(
        "{path} tells of no drain: no fact says that the health sidecar left OPEN, or that the pod was to go; \
         give the timeline of a drain"
    )]
    NoDrain { path: PathBuf },
}

/// Reads a record: its directory, or its timeline.
pub fn read(path: &Path) -> Result<Input, InputError> {
    let timeline = if path.is_dir() { path.join(TIMELINE) } else { path.to_owned() };
    let is_record = timeline.file_name().is_some_and(|name| name == TIMELINE);
    let (mut facts, mut remarks) = facts(&timeline)?;
    let summary = if is_record { summary(&timeline.with_file_name(INTERVALS)) } else { Ok(None) };
    let summary = summary.unwrap_or_else(|why| {
        // Facts may be lost as well, and nothing shows which.
        facts.push(lost(&facts, why.clone()));
        remarks.push(why);
        None
    });
    let known = |field: fn(&Summary) -> &String| summary.as_ref().map_or("", |summary| field(summary));
    let record = Record::of(
        known(|summary| &summary.namespace),
        known(|summary| &summary.pod),
        known(|summary| &summary.uid),
        facts,
        summary.as_ref().map_or(0, |summary| summary.left_out),
    );
    let mut record = record.ok_or(InputError::NoDrain { path: timeline })?;
    if let Some(summary) = &summary {
        record.hold_against(summary);
    }
    if let Some(summary) = &summary
        && summary.verdict != record.outcome()
    {
        remarks.push(format!(
            "{INTERVALS} beside the timeline says {}: the facts judged again give {}",
            summary.verdict.word(),
            record.outcome().word()
        ));
    }
    Ok(Input { record, remarks })
}

/// The facts of a timeline, in order.
fn facts(path: &Path) -> Result<(Vec<Timed>, Vec<String>), InputError> {
    let content = content(path)?;
    let mut facts: Vec<Timed> = Vec::new();
    let mut wrong: Option<(usize, String)> = None;
    let mut wrongs = 0_u64;
    for (number, line) in (1..).zip(content.split(|byte| *byte == b'\n')) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice::<Timed>(line) {
            Ok(fact) => facts.push(fact),
            Err(error) => {
                wrongs += 1;
                wrong.get_or_insert((number, error.to_string()));
            }
        }
    }
    facts.sort();
    let said = wrong.map(|(number, error)| {
        let lines = if wrongs == 1 { "1 line" } else { &format!("{wrongs} lines") };
        format!(
            "{lines} of the timeline cannot be read, the first is line {number}: {}",
            shortened(&error, 120)
        )
    });
    if facts.is_empty() {
        let cause = said.unwrap_or_else(|| "it is empty".to_owned());
        return Err(InputError::NoFacts { path: path.to_owned(), cause });
    }
    if let Some(why) = said.clone() {
        facts.push(lost(&facts, why));
    }
    Ok((facts, said.into_iter().collect()))
}

/// That facts are missing, at the end of those that are there.
fn lost(facts: &[Timed], why: String) -> Timed {
    let ts = facts.last().map_or(0, |last| last.ts);
    Timed { ts, fact: Fact::Gap { source: Source::Record, length_us: 0, why } }
}

/// What stands beside a timeline; that there is nothing is no failure.
fn summary(path: &Path) -> Result<Option<Summary>, String> {
    let content = match content(path) {
        Ok(content) => content,
        Err(InputError::Unreadable { cause, .. }) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    serde_json::from_slice(&content).map(Some).map_err(|error| {
        format!("{INTERVALS} beside the timeline cannot be read, so the pod's name is not known: {error}")
    })
}

fn content(path: &Path) -> Result<Vec<u8>, InputError> {
    let unreadable = |cause| InputError::Unreadable { path: path.to_owned(), cause };
    let mut content = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MOST_BYTES + 1).read_to_end(&mut content).map_err(unreadable)?;
    if content.len() as u64 > MOST_BYTES {
        return Err(InputError::TooLong { path: path.to_owned() });
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::drain::verdict::Outcome;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/drains").join(name)
    }

    /// Exercises records of real drains, by their directories and by their timelines, so that the same verdict comes of the
    /// facts as the daemon gave.
    #[test]
    fn records() {
        for (name, outcome) in [("s1_current", Outcome::Broken), ("s2_improved", Outcome::Protected)] {
            for path in [fixture(name), fixture(name).join(TIMELINE)] {
                let input = read(&path).unwrap();
                assert_eq!((input.record.outcome(), input.remarks.len()), (outcome, 0), "{name}");
                assert_eq!(input.record.namespace, "istio-system");
            }
        }
        let alone = read(&fixture("s1_current_lb")).unwrap();
        assert_eq!((alone.record.pod.as_str(), alone.record.facts.len()), ("", 18));
    }

    /// Exercises a timeline whose last line is cut off, so that nothing protected is claimed of it, and one whose verdict was
    /// another, so that both are told.
    #[test]
    fn not_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(TIMELINE);
        let whole = fs::read(fixture("s2_improved").join(TIMELINE)).unwrap();
        fs::write(&path, whole.get(..whole.len() - 20).unwrap()).unwrap();
        fs::copy(fixture("s2_improved").join(INTERVALS), dir.path().join(INTERVALS)).unwrap();
        let input = read(dir.path()).unwrap();
        assert_eq!(input.record.outcome(), Outcome::Inconclusive);
        assert!(input.remarks.iter().any(|remark| remark.contains("line 14")), "{:?}", input.remarks);
        assert!(input.remarks.iter().any(|remark| remark.contains("says protected")), "{:?}", input.remarks);
        fs::write(&path, whole).unwrap();
        assert_eq!(read(&path).unwrap().record.outcome(), Outcome::Protected);
        fs::write(dir.path().join(INTERVALS), "{").unwrap();
        let damaged = read(&path).unwrap();
        assert_eq!((damaged.record.pod.as_str(), damaged.record.outcome()), ("", Outcome::Inconclusive));
        assert!(damaged.remarks[0].contains("EOF while parsing"), "{:?}", damaged.remarks);
    }

    /// Exercises records of broken and uncertain drains without each of their lines, and without each head, with what was made of
    /// them beside, so that none becomes protected.
    #[test]
    fn lines_that_are_missing() {
        for name in ["s1_current", "broken", "inconclusive"] {
            let text = fs::read_to_string(fixture(name).join(TIMELINE)).unwrap();
            let lines: Vec<_> = text.lines().collect();
            let dir = tempfile::tempdir().unwrap();
            fs::copy(fixture(name).join(INTERVALS), dir.path().join(INTERVALS)).unwrap();
            for missing in 0..lines.len() {
                let without = [lines.get(..missing).unwrap(), lines.get(missing + 1..).unwrap()].concat();
                for rest in [without.as_slice(), lines.get(missing..).unwrap()] {
                    fs::write(dir.path().join(TIMELINE), rest.join("\n") + "\n").unwrap();
                    let outcome =
                        read(dir.path()).map_or(Outcome::Inconclusive, |input| input.record.outcome());
                    assert_ne!(outcome, Outcome::Protected, "{name} without line {missing}");
                }
            }
        }
    }

    /// Exercises what is no timeline, so that each failure names the file and what to give instead.
    #[test]
    fn no_records() {
        let dir = tempfile::tempdir().unwrap();
        let missing = read(dir.path()).unwrap_err().to_string();
        assert!(missing.contains(TIMELINE) && missing.contains("--record"), "{missing}");
        let path = dir.path().join("any.jsonl");
        let error = |content: &[u8]| {
            fs::write(&path, content).unwrap();
            read(&path).unwrap_err()
        };
        assert!(matches!(error(b""), InputError::NoFacts { .. }));
        assert!(matches!(error(b"\xff\xfe\0\n{}\n"), InputError::NoFacts { .. }));
        let ended = br#"{"ts":"2026-05-31T07:12:34.000001Z","event":"ended"}"#;
        assert!(matches!(error(ended), InputError::NoDrain { .. }));
        let huge = File::create(&path).unwrap();
        huge.set_len(MOST_BYTES + 1).unwrap();
        assert!(matches!(read(&path).unwrap_err(), InputError::TooLong { .. }));
    }
}
