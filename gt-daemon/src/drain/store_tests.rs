//! Records on a real disk: whole, few, and in their place.

use std::collections::BTreeSet;

use super::*;
use crate::drain::fact::{Fact, Timed};

fn record(second: i64, namespace: &str, pod: &str, uid: &str) -> Record {
    let ts = second * 1_000_000 + 1;
    let facts = vec![
        Timed { ts, fact: Fact::PodDeleted { grace_seconds: 30 } },
        Timed { ts: ts + 1, fact: Fact::PodGone },
        Timed { ts: ts + 2, fact: Fact::Ended },
    ];
    Record::of(namespace, pod, uid, facts, 0).unwrap()
}

fn names(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Exercises a record, so that its two files hold what a reader needs, and nothing unfinished is left.
#[test]
fn a_record() {
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("made/by/gt");
    let store = Store::open(below.clone(), 3).unwrap();
    let place = store.write(&record(1_780_211_554, "ns", "pod", "u-1")).unwrap();
    assert_eq!(place, below.join("20260531T071234.000001Z_ns_pod_u-1"));
    let lines = fs::read_to_string(place.join("timeline.jsonl")).unwrap();
    let facts: Vec<Timed> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(facts.len(), 3);
    let summary = fs::read_to_string(place.join("intervals.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!((&summary["verdict"], &summary["uid"]), (&"protected".into(), &"u-1".into()));
    assert_eq!(summary["began"], "2026-05-31T07:12:34.000001Z");
    assert_eq!(summary["evidence"]["cuts"], 0);
    let is_null = |key| summary.get(key).is_some_and(serde_json::Value::is_null);
    assert!(is_null("active_zero_to_lb_down") && is_null("drain_to_active_zero"), "{summary}");
    assert_eq!(names(&below).len(), 1);
}

/// Exercises more records than are kept, so that the oldest go and nothing else does; and one of the same name.
#[test]
fn the_last_ones_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("precious"), "").unwrap();
    let link = dir.path().join("20000101T000000.000000Z_a_b_c");
    std::os::unix::fs::symlink(outside.path(), &link).unwrap();
    fs::create_dir(dir.path().join("0_notes")).unwrap();
    let store = Store::open(dir.path().to_owned(), 2).unwrap();
    for second in [3, 1, 2, 2] {
        store.write(&record(second, "ns", "pod", "u")).unwrap();
    }
    let kept = names(dir.path());
    assert_eq!(
        kept.iter().map(String::as_str).collect::<Vec<_>>(),
        [
            "0_notes",
            "19700101T000002.000001Z_ns_pod_u.2",
            "19700101T000003.000001Z_ns_pod_u",
            "20000101T000000.000000Z_a_b_c"
        ]
    );
    assert!(outside.path().join("precious").exists());
}

/// Exercises names that lead elsewhere or are too long, so that each record is one directory right below.
#[test]
fn odd_names() {
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("records");
    let store = Store::open(below.clone(), 10).unwrap();
    let long = "ü/".repeat(300);
    let odd = [
        ("..", "../../etc", "/"),
        ("a/../../b", "\n\0", "\u{202e}_x"),
        ("", "", ""),
        (&*long, &*long, &*long),
    ];
    for (namespace, pod, uid) in odd {
        let place = store.write(&record(7, namespace, pod, uid)).unwrap();
        assert_eq!(place.parent(), Some(&*below), "{place:?}");
        assert!(is_record(place.file_name().unwrap().to_str().unwrap()), "{place:?}");
    }
    assert_eq!((names(dir.path()).len(), names(&below).len()), (1, 4));
}

/// Exercises a directory that cannot be made, one that vanishes, and one with half a record from a run before, so
/// that each fault names what it is about, and no half record is left.
#[test]
fn what_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let told = Store::open(file.join("records"), 1).unwrap_err().to_string();
    assert!(told.contains("file/records") && told.contains("--record"), "{told}");
    let below = dir.path().join("records");
    let store = Store::open(below.clone(), 1).unwrap();
    fs::remove_dir(&below).unwrap();
    let told = store.write(&record(1, "ns", "pod", "u")).unwrap_err().to_string();
    assert!(told.contains("mount its file system again"), "{told}");
    assert!(!below.exists());
    // What a run before has left behind goes.
    fs::create_dir_all(below.join(format!("{UNFINISHED}new-1/deep"))).unwrap();
    Store::open(below.clone(), 1).unwrap();
    assert!(names(&below).is_empty());
}

/// Exercises each cause of a failure, so that its remedy fits.
#[test]
fn remedies() {
    for (kind, word) in [
        (ErrorKind::StorageFull, "--record-keep"),
        (ErrorKind::ReadOnlyFilesystem, "another directory"),
        (ErrorKind::NotFound, "anew"),
    ] {
        assert!(remedy(&kind.into()).contains(word), "{kind:?}");
    }
}
