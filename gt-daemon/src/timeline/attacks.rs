//! Ways in which a broken run could pass for a protected one: lines and files that are missing, added or not what they seem.

use std::{fs, path::Path};

use tempfile::TempDir;

use super::{
    join, read,
    tests::{copy, judged, options, testdata},
};
use crate::drain::verdict::Outcome;

/// The verdict over a directory, and all reasons and notes.
fn told(dir: &Path) -> (Outcome, String) {
    let (records, notes) = judged(vec![dir.to_owned()]);
    let reasons: Vec<_> = records.iter().flat_map(|record| record.verdict.reasons.clone()).collect();
    (join::worst(&records), reasons.join("; ") + &notes)
}

/// Changes a text file.
fn change(dir: &TempDir, name: &str, how: impl Fn(&str) -> String) {
    let path = dir.path().join(name);
    fs::write(&path, how(&fs::read_to_string(&path).unwrap())).unwrap();
}

fn without(text: &str, is_gone: impl Fn(usize, &str) -> bool) -> String {
    let kept = text.split_inclusive('\n').enumerate().filter(|(number, line)| !is_gone(*number, line));
    kept.map(|(_, line)| line).collect()
}

/// A copy without some files.
fn lacking(run: &str, names: &[&str]) -> TempDir {
    let dir = copy(run);
    for name in names {
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    dir
}

/// Exercises each line of hc's log missing, and all before it, with and without what else tells of the cuts, so that nothing
/// broken is protected.
#[test]
fn lines_of_hc() {
    let others = ["haproxy.log", "haproxy-stat-timeline.csv"];
    for run in ["A2_h1_sleep_x6", "B_h1_stream", "three_pods"] {
        let count = fs::read_to_string(testdata(run).join("hc.log")).unwrap().lines().count();
        for line in 0..count {
            for gone in [&[][..], &others[..1], &others[1..]] {
                let dir = lacking(run, gone);
                change(&dir, "hc.log", |text| without(text, |number, _| number == line));
                assert_ne!(told(dir.path()).0, Outcome::Protected, "{run} without line {line} and {gone:?}");
                let dir = lacking(run, gone);
                change(&dir, "hc.log", |text| without(text, |number, _| number < line));
                assert_ne!(
                    told(dir.path()).0,
                    Outcome::Protected,
                    "{run} from line {line} on, and without {gone:?}"
                );
            }
        }
    }
}

/// Exercises a log that has no turn from OPEN, so that the reason says so.
#[test]
fn no_turn() {
    let dir = copy("A2_h1_sleep_x6");
    fs::remove_file(dir.path().join("haproxy-stat-timeline.csv")).unwrap();
    change(&dir, "hc.log", |text| {
        without(text, |_, line| line.contains("from=OPEN")).replace(
            "2026-11-30T07:11:50.5",
            "2026-11-30T07:11:49.1Z event=transition from=CLOSING to=CLOSED\n2026-11-30T07:11:50.5",
        )
    });
    let (outcome, why) = told(dir.path());
    assert!(outcome == Outcome::Inconclusive && why.contains("begins after its turn from OPEN"), "{why}");
}

/// Exercises hc's clock at any distance, so that cuts that come to stand before the beginning still count for something.
#[test]
fn clocks_of_hc() {
    let dir = lacking("A2_h1_sleep_x6", &["haproxy.log"]);
    for tenths in 0..=50 {
        let offset = format!("hc=-{}.{}s", tenths / 10, tenths % 10);
        let (records, _) = read(&options(vec![dir.path().to_owned()], &[&offset])).unwrap();
        assert_ne!(join::worst(&records), Outcome::Protected, "{offset}");
    }
    // Without a DOWN nothing but the cuts themselves tells that hc's log begins late.
    let dir = lacking("A2_h1_sleep_x6", &["haproxy.log", "haproxy-stat-timeline.csv"]);
    let (records, _) = read(&options(vec![dir.path().to_owned()], &["hc=-3.8s"])).unwrap();
    let why = records[0].verdict.reasons.join("; ");
    assert!(why.contains("cut just before the drain began (6)"), "{why}");
}
