//! Artifacts of real drains, whole, in part and damaged: `testdata/timeline`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::drain::{
    fact::{End, Fact, Timed, Way},
    verdict::Outcome,
};

const RUNS: [(&str, Outcome, u64, u64); 7] = [
    ("A2_h1_sleep_x6", Outcome::Broken, 6, 0),
    ("B_h1_stream", Outcome::Broken, 1, 0),
    ("C_h2_sleep", Outcome::Broken, 2, 0),
    ("E_h1_idle", Outcome::Protected, 0, 0),
    ("H1_kill_h1", Outcome::Broken, 3, 0),
    ("I1_impr_h1_sleep", Outcome::Protected, 0, 0),
    ("M2_client_abort", Outcome::Inconclusive, 0, 1),
];

pub(super) fn testdata(run: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/timeline").join(run)
}

fn files(run: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(testdata(run)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

pub(super) fn options(paths: Vec<PathBuf>, offsets: &[&str]) -> Options {
    Options {
        paths,
        output: None,
        offset: offsets.iter().map(|offset| offset.parse().unwrap()).collect(),
        json: false,
        hc_alias: Vec::new(),
        health_ports: vec![18_180, 15_021],
        admin_ports: vec![15_000, 15_020, 15_090],
    }
}

pub(super) fn judged(paths: Vec<PathBuf>) -> (Vec<Record>, String) {
    let (records, notes) = read(&options(paths, &[])).unwrap();
    (records, output::notes(&notes))
}

fn of(run: &str) -> Record {
    judged(vec![testdata(run)]).0.remove(0)
}

/// A copy of a run, of which files may be changed.
pub(super) fn copy(run: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in files(run) {
        fs::copy(&file, dir.path().join(file.file_name().unwrap())).unwrap();
    }
    dir
}

fn outcome(dir: &TempDir) -> (Outcome, String) {
    let (records, notes) = judged(vec![dir.path().to_owned()]);
    (join::worst(&records), notes)
}

/// Exercises each run as a whole, so that its verdict is the right one, each cut counts once, and nothing is left uncertain.
#[test]
fn verdicts() {
    for (run, outcome, cuts, aborts) in RUNS {
        let record = of(run);
        let counts = &record.verdict.counts;
        assert_eq!((record.outcome(), counts.cuts, counts.client_aborts), (outcome, cuts, aborts), "{run}");
        assert_eq!(counts.uncertain, 0, "{run}");
    }
}

fn ends(record: &Record) -> Vec<&End> {
    record.facts.iter().filter_map(end_of).collect()
}

fn end_of(timed: &Timed) -> Option<&End> {
    if let Fact::TcpTeardown(end) = &timed.fact { Some(end) } else { None }
}

/// Exercises how the cuts came about, so that each says what the wire, Envoy and HAProxy said of it.
#[test]
fn how_they_ended() {
    let told = |run: &str| {
        let record = of(run);
        let mut told: Vec<String> = ends(&record)
            .iter()
            .map(|end| {
                format!("{} {} {} x{}", end.how, end.evidence.as_deref().unwrap_or("-"), end.cause, end.count)
            })
            .collect();
        told.sort();
        told.dedup();
        told
    };
    assert_eq!(told("A2_h1_sleep_x6"), ["fin_received l7 lb_flush x1"]);
    assert_eq!(told("B_h1_stream"), ["fin_received l7 lb_flush x1"]);
    assert_eq!(told("C_h2_sleep"), ["rst_received - lb_flush x1", "stream_reset l7 lb_flush x1"]);
    assert_eq!(told("M2_client_abort"), ["rst_received l7 client_abort x1"]);
    assert_eq!(told("I1_impr_h1_sleep"), ["rst_received - client_abort x1"]);
    let killed = told("H1_kill_h1");
    assert!(killed.iter().all(|end| end.ends_with("killed x1")), "{killed:?}");
    // No RST on the side of the load balancer, though it was a kill.
    assert!(!of("B_h1_stream").facts.iter().any(|timed| matches!(timed.fact, Fact::TcpRst { .. })));
    let resets = of("A2_h1_sleep_x6").facts.into_iter();
    let resets = resets
        .filter(|timed| matches!(timed.fact, Fact::TcpRst { direction: Way::Received, in_flight: true, .. }));
    assert_eq!(resets.count(), 6);
}

/// Exercises the intervals, so that the order of the two clocks shows in their signs, and what is not there is not known.
#[test]
fn intervals() {
    let broken = of("A2_h1_sleep_x6").intervals;
    assert!(broken.active_zero_to_lb_down.unwrap() < 0.0);
    assert!((0.0..0.01).contains(&broken.lb_down_to_first_rst.unwrap()));
    let protected = of("I1_impr_h1_sleep").intervals;
    assert!(protected.active_zero_to_lb_down.unwrap() > 3.0);
    assert_eq!(of("B_h1_stream").intervals.lb_down_to_first_rst, None);
}

/// Exercises three pods in one folder, so that each has its own drain, name, server and capture.
#[test]
fn three_pods() {
    let (records, _) = judged(vec![testdata("three_pods")]);
    let told: Vec<_> = records
        .iter()
        .map(|record| {
            (
                record.pod.trim_start_matches("istio-ingressgateway-6d8f9c7b5-"),
                record.outcome(),
                record.verdict.counts.cuts,
            )
        })
        .collect();
    assert_eq!(
        told,
        [("00001", Outcome::Broken, 2), ("00002", Outcome::Broken, 2), ("00003", Outcome::Broken, 2)]
    );
    let streams = |record: &Record| {
        ends(record).iter().filter(|end| end.evidence.is_some()).all(|end| end.connection.is_some())
    };
    assert!(records.iter().all(streams), "each cut is a connection of the pod's own capture");
}

/// Exercises the daemon's own record and a directory of them, so that they are judged as the daemon did.
#[test]
fn own_records() {
    let (records, notes) = judged(vec![testdata("record")]);
    assert_eq!(
        (records[0].outcome(), records[0].namespace.as_str(), notes.as_str()),
        (Outcome::Protected, "istio-system", "")
    );
    let dir = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::copy(testdata("record/timeline.jsonl"), dir.path().join(name).join("timeline.jsonl")).unwrap();
    }
    assert_eq!(judged(vec![dir.path().to_owned()]).0.len(), 2);
    // A verdict that was changed by hand: more was known once, or is said to have been.
    let beside =
        fs::read_to_string(testdata("record/intervals.json")).unwrap().replace("\"protected\"", "\"broken\"");
    fs::write(dir.path().join("one/intervals.json"), beside).unwrap();
    let (records, notes) = judged(vec![dir.path().join("one")]);
    assert!(records[0].outcome() == Outcome::Inconclusive && notes.contains("the facts count"), "{notes}");
}

/// Exercises a clock that was 2 s ahead, told by --offset, so that nothing changes.
#[test]
fn skewed_clocks() {
    let dir = copy("A2_h1_sleep_x6");
    for file in ["haproxy.log", "haproxy-stat-timeline.csv"] {
        let text = fs::read_to_string(dir.path().join(file)).unwrap();
        // All of it lies between second 43 and 54.
        let ahead: String = (43..=54).rev().fold(text, |text, second| {
            text.replace(&format!("T07:11:{second}."), &format!("T07:11:{}.", second + 2))
        });
        fs::write(dir.path().join(file), ahead).unwrap();
    }
    let (records, _) = read(&options(vec![dir.path().to_owned()], &["haproxy=+2s"])).unwrap();
    assert_eq!(records[0].intervals, of("A2_h1_sleep_x6").intervals);
    assert_eq!(records[0].facts, of("A2_h1_sleep_x6").facts);
    let (records, _) = read(&options(vec![dir.path().to_owned()], &[])).unwrap();
    assert!(records[0].intervals.active_zero_to_lb_down.unwrap() > 1.0, "the wrong clock shows");
}

/// Exercises what a protected drain needs, so that without any of it the verdict is open, and says why.
#[test]
fn what_protection_takes() {
    let without = |names: &[&str]| {
        let dir = copy("I1_impr_h1_sleep");
        for name in names {
            fs::remove_file(dir.path().join(name)).unwrap();
        }
        let (records, _) = judged(vec![dir.path().to_owned()]);
        (records[0].outcome(), records[0].verdict.reasons.join("; "))
    };
    let (log, looks) = ("haproxy.log", "haproxy-stat-timeline.csv");
    assert_eq!(without(&["pod.pcap", "curl_s.out", "run.log", "envoy.log"]).0, Outcome::Protected);
    for account in [&["stats_after.txt", log][..], &["stats_before.txt", looks], &[log, looks]] {
        // DOWN is told by the log or by the statistics: without both nobody saw the end.
        let expected = if account == [log, looks] { Outcome::Inconclusive } else { Outcome::Protected };
        assert_eq!(without(account).0, expected, "{account:?}");
    }
    let (outcome, reasons) = without(&["stats_after.txt", log, looks]);
    assert!(
        outcome == Outcome::Inconclusive && reasons.contains("nothing accounts for every request"),
        "{reasons}"
    );
    let (outcome, reasons) = without(&["hc.log"]);
    assert!(outcome == Outcome::Inconclusive && reasons.contains("there is no hc.log"), "{reasons}");
}

/// Exercises damaged files, so that each is named with its line, its cause and a remedy, and the verdict claims no more than
/// what is left shows.
#[test]
fn damaged_files() {
    let cut = |name: &'static str, keep: usize| {
        let bytes = fs::read(testdata("I1_impr_h1_sleep").join(name)).unwrap();
        (name, bytes[..bytes.len() - keep].to_vec())
    };
    let utf16: Vec<u8> =
        [0xff, 0xfe].into_iter().chain("ts".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    let unknown = b"2026-11-30T07:16:46.981444Z event=transition from=OPEN to=LEAVING\n".to_vec();
    let huge = [&vec![b'x'; 300_000][..], b"\n"].concat();
    let table = [
        (cut("haproxy-stat-timeline.csv", 20), "line 9: has no end", Outcome::Protected),
        (cut("pod.pcap", 20), "is cut off after packet", Outcome::Protected),
        (cut("stats_after.txt", 20), "no whole list of Envoy's stats", Outcome::Protected),
        (cut("hc.log", 20), "line 15: has no end", Outcome::Inconclusive),
        (("hc.log", Vec::new()), "hc.log: is empty", Outcome::Inconclusive),
        (("hc.log", utf16), "hc.log: is UTF-16", Outcome::Inconclusive),
        (("hc.log", unknown), "line 1: tells of a state that nobody knows", Outcome::Inconclusive),
        (("hc.log", huge), "line 1: is longer than", Outcome::Inconclusive),
        (("hc.log", b"\x1f\x8b\x08".to_vec()), "compressed by gzip", Outcome::Inconclusive),
    ];
    for ((name, content), message, expected) in table {
        let dir = copy("I1_impr_h1_sleep");
        fs::write(dir.path().join(name), content).unwrap();
        let (outcome, notes) = outcome(&dir);
        assert!(notes.contains(message) && notes.contains(name) && notes.contains("; "), "{name}: {notes}");
        assert_eq!(outcome, expected, "{name}: {message}");
    }
}

/// Exercises files of one run given one by one in any order, so that the record is the same.
#[test]
fn any_order_of_files() {
    let (first, _) = judged(vec![testdata("A2_h1_sleep_x6")]);
    let mut paths = files("A2_h1_sleep_x6");
    for _ in 0..4 {
        paths.rotate_left(3);
        let (records, _) = judged(paths.clone());
        assert!(records == first);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Exercises any of the files of each run, so that less evidence never makes a drain protected that was not.
    #[test]
    fn less_is_not_better(run in 0..RUNS.len(), kept in prop::collection::vec(any::<bool>(), 16)) {
        let (run, whole, ..) = RUNS[run];
        let paths: Vec<_> = files(run).into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(path, _)| path).collect();
        if !paths.is_empty() {
            let (records, _) = judged(paths);
            prop_assert!(whole == Outcome::Protected || join::worst(&records) != Outcome::Protected, "{}", run);
        }
    }

    /// Exercises runs of which one file is cut off anywhere and others may be missing, so that the same holds.
    #[test]
    fn cut_off(run in 0..RUNS.len(), file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), gone in any::<prop::sample::Index>()) {
        let (run, whole, ..) = RUNS[run];
        let dir = copy(run);
        let paths = files(run);
        let (file, gone) = (&paths[file.index(paths.len())], &paths[gone.index(paths.len())]);
        let bytes = fs::read(file).unwrap();
        fs::remove_file(dir.path().join(gone.file_name().unwrap())).unwrap();
        fs::write(dir.path().join(file.file_name().unwrap()), &bytes[..at.index(bytes.len() + 1)]).unwrap();
        let (outcome, _) = outcome(&dir);
        prop_assert!(whole == Outcome::Protected || outcome != Outcome::Protected, "{}", run);
    }

    /// Exercises runs in which any byte of a file is another one, so that none panics.
    #[test]
    fn any_byte(run in 0..RUNS.len(), file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let (run, whole, ..) = RUNS[run];
        let dir = copy(run);
        let paths = files(run);
        let file = &paths[file.index(paths.len())];
        let mut bytes = fs::read(file).unwrap();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        fs::write(dir.path().join(file.file_name().unwrap()), bytes).unwrap();
        let (outcome, _) = outcome(&dir);
        prop_assert!(whole == Outcome::Protected || outcome != Outcome::Protected, "{}", run);
    }
}
