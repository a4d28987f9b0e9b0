//! Ways in which a broken run could pass for a protected one: lines and files that are missing, added or not what they seem.

use std::{fs, path::Path};

use proptest::prelude::*;
use tempfile::TempDir;

use super::{
    join, read,
    tests::{copy, judged, options, testdata},
};
use crate::drain::verdict::Outcome;

/// The verdict over a directory, and all reasons and notes.
pub(super) fn told(dir: &Path) -> (Outcome, String) {
    let (records, notes) = judged(vec![dir.to_owned()]);
    let reasons: Vec<_> = records.iter().flat_map(|record| record.verdict.reasons.clone()).collect();
    (join::worst(&records), reasons.join("; ") + &notes)
}

/// Changes a text file.
pub(super) fn change(dir: &TempDir, name: &str, how: impl Fn(&str) -> String) {
    let path = dir.path().join(name);
    fs::write(&path, how(&fs::read_to_string(&path).unwrap())).unwrap();
}

pub(super) fn without(text: &str, is_gone: impl Fn(usize, &str) -> bool) -> String {
    let kept = text.split_inclusive('\n').enumerate().filter(|(number, line)| !is_gone(*number, line));
    kept.map(|(_, line)| line).collect()
}

/// A copy without some files.
pub(super) fn lacking(run: &str, names: &[&str]) -> TempDir {
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

/// Exercises a directory of runs of which one has no log of its sidecar and one is gt's record of a broken drain, so that both
/// count, and what is not read is named.
#[test]
fn runs_without_a_sidecar() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str, from: &Path| {
        fs::create_dir(dir.path().join(name)).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, dir.path().join(name).join(path.file_name().unwrap())).unwrap();
        }
    };
    place("pod-a", &testdata("I1_impr_h1_sleep"));
    assert_eq!(told(dir.path()).0, Outcome::Protected);
    fs::write(dir.path().join("haproxy.log"), "").unwrap();
    let (outcome, why) = told(dir.path());
    assert!(outcome == Outcome::Protected && why.contains("haproxy.log: is not read"), "{why}");
    let broken = lacking("A2_h1_sleep_x6", &["hc.log"]);
    place("pod-b", broken.path());
    let (outcome, why) = told(dir.path());
    assert!(outcome != Outcome::Protected && why.contains("there is no hc.log"), "{why}");
    fs::remove_dir_all(dir.path().join("pod-b")).unwrap();
    let (records, _) = judged(vec![testdata("A2_h1_sleep_x6")]);
    super::output::write(&dir.path().join("pod-c"), &records).unwrap();
    assert_eq!(told(dir.path()).0, Outcome::Broken);
}

/// Exercises another pod's life in hc's log, so that files without a pod's name still count, and clients' failures too.
#[test]
fn another_life() {
    let another = "2026-11-30T07:00:00Z event=listening state=OPEN\n";
    for run in ["A2_h1_sleep_x6", "B_h1_stream", "C_h2_sleep"] {
        for gone in [
            &["haproxy.log"][..],
            &["haproxy-stat-timeline.csv"],
            &["haproxy.log", "pod.pcap"],
            &["haproxy.log", "envoy.log"],
        ] {
            let dir = lacking(run, gone);
            change(&dir, "hc.log", |text| text.to_owned() + another);
            assert_ne!(told(dir.path()).0, Outcome::Protected, "{run} without {gone:?}");
        }
    }
    let dir = copy("I1_impr_h1_sleep");
    change(&dir, "hc.log", |text| text.to_owned() + another);
    fs::write(dir.path().join("curl_bad.out"), "RESULT code=502 t=1.0 bytes=107 err=\n").unwrap();
    assert_ne!(told(dir.path()).0, Outcome::Protected);
}

/// Exercises what clients wrote in other forms or not whole, and noise in the load balancer's log, so that no failure is lost.
#[test]
fn what_clients_saw() {
    let noise = "<134>1 2026-11-30T07:16:59.332621+00:00 - haproxy 1 - - 127.0.0.1:41500 [30/Nov/2026:07:16:54.593] fe fe/<NOSRV> \
                 -1/-1/-1/-1/5000 408 212 - - cR-- 1/1/0/0/0 0/0 \"<BADREQ>\"\n";
    let utf16: Vec<u8> =
        [0xff, 0xfe].into_iter().chain("code=502\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    for text in [
        &b"RESULT code=502 t=1.0 bytes=107 err=\n"[..],
        b"RESULT code=200 t=1 bytes=3 exit=18\n",
        b"502\n",
        b"{\"http_code\":502,\"exitcode\":0}\n",
        b"http_code: 502\n",
        b"HTTP/1.1 502 Bad Gateway\ncurl: (52) Empty reply from server\n",
        b"RESULT code=502 t=1.0 bytes=107 err=",
        &utf16,
        b"",
    ] {
        let dir = copy("I1_impr_h1_sleep");
        fs::write(dir.path().join("curl_bad.out"), text).unwrap();
        change(&dir, "haproxy.log", |log| log.to_owned() + noise);
        let (outcome, why) = told(dir.path());
        assert!(
            outcome == Outcome::Inconclusive && why.contains("clients"),
            "{}: {why}",
            String::from_utf8_lossy(text)
        );
    }
}

/// Exercises a request that the load balancer gave up by its own time limit before it turned away, so that the client's 504 is
/// explained, and a second one is not.
#[test]
fn time_limit_of_lb() {
    let dir = lacking("I1_impr_h1_sleep", &["pod.pcap", "stats_after.txt", "haproxy-stat-timeline.csv"]);
    let given_up = "<134>1 2026-11-30T07:16:58.332621+00:00 - haproxy 1 - - 127.0.0.1:41500 [30/Nov/2026:07:16:54.593] fe be/pod1 \
                    0/0/0/-1/3739 504 194 - - sH-- 1/1/0/0/0 0/0 \"GET /x HTTP/1.1\"\n";
    change(&dir, "haproxy.log", |text| text.to_owned() + given_up);
    let failed = "RESULT code=504 t=3.7 bytes=92 err=\n";
    fs::write(dir.path().join("curl_late.out"), failed).unwrap();
    let (outcome, why) = told(dir.path());
    assert_eq!(outcome, Outcome::Protected, "{why}");
    fs::write(dir.path().join("curl_late.out"), failed.repeat(2)).unwrap();
    let (outcome, why) = told(dir.path());
    assert!(outcome == Outcome::Inconclusive && why.contains("2 requests of clients failed, and 1"), "{why}");
}

/// Exercises captures of other pods with names that are like the pod's, so that they do not stand for it.
#[test]
fn names_alike() {
    let dir = lacking(
        "A2_h1_sleep_x6",
        &["haproxy.log", "envoy.log", "stats_after.txt", "curl_s0.out", "curl_s1.out"],
    );
    fs::copy(testdata("I1_impr_h1_sleep/pod.pcap"), dir.path().join("podinfo-77f.pcap")).unwrap();
    fs::rename(dir.path().join("pod.pcap"), dir.path().join("worker1.pcap")).unwrap();
    assert_eq!(told(dir.path()).0, Outcome::Broken);
    fs::write(dir.path().join("pod.pcap"), "").unwrap();
    assert_eq!(told(dir.path()).0, Outcome::Broken, "an empty capture of the pod's own");
    let gone = "[2026-11-30T07:11:45.300000Z] [S] pod igw-1 is deleted\n";
    change(&dir, "run.log", |text| text.to_owned() + gone);
    fs::copy(testdata("I1_impr_h1_sleep/pod.pcap"), dir.path().join("igw-10.pcap")).unwrap();
    assert_eq!(told(dir.path()).0, Outcome::Broken, "another pod's capture");
}

/// Exercises a log that was rotated, so that it is said that it is not read.
#[test]
fn rotated() {
    let dir = copy("I1_impr_h1_sleep");
    fs::write(dir.path().join("haproxy.log.1"), "x").unwrap();
    let (_, why) = told(dir.path());
    assert!(why.contains("haproxy.log.1: is not read: it is rotated"), "{why}");
}

/// Exercises a pipe among the artifacts and as one, so that nobody waits for it.
#[test]
fn pipes() {
    let dir = copy("I1_impr_h1_sleep");
    let pipe = dir.path().join("envoy-1.log");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    for path in [dir.path().to_owned(), pipe] {
        let error = read(&options(vec![path], &[])).unwrap_err().to_string();
        assert!(error.contains("envoy-1.log is no regular file; copy its contents"), "{error}");
    }
}

const BROKEN: [&str; 4] = ["A2_h1_sleep_x6", "B_h1_stream", "C_h2_sleep", "H1_kill_h1"];
const OTHERS: [&str; 3] = ["I1_impr_h1_sleep", "E_h1_idle", "M2_client_abort"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Exercises broken runs that lack any line of any file, and maybe a whole one, so that none is protected.
    #[test]
    fn any_line_less(run in 0..BROKEN.len(), file in any::<prop::sample::Index>(), line in any::<prop::sample::Index>(), gone in any::<prop::sample::Index>()) {
        let dir = copy(BROKEN[run]);
        let mut texts: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        texts.sort();
        let gone = texts[gone.index(texts.len())].clone();
        texts.retain(|name| name != "pod.pcap");
        let name = &texts[file.index(texts.len())];
        change(&dir, name, |text| {
            let line = line.index(text.lines().count().max(1));
            without(text, |number, _| number == line)
        });
        fs::remove_file(dir.path().join(&gone)).unwrap();
        prop_assert_ne!(told(dir.path()).0, Outcome::Protected, "{} with {} less a line, without {}", BROKEN[run], name, gone);
    }

    /// Exercises broken runs with any file of a run without a cut beside their own, so that none is protected.
    #[test]
    fn any_file_more(run in 0..BROKEN.len(), other in 0..OTHERS.len(), file in any::<prop::sample::Index>(), gone in any::<prop::sample::Index>()) {
        let dir = copy(BROKEN[run]);
        let mut own: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        own.sort();
        let mut paths: Vec<_> = fs::read_dir(testdata(OTHERS[other])).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let path = &paths[file.index(paths.len())];
        let name = path.file_name().unwrap().to_str().unwrap();
        let name = if name.ends_with(".txt") { format!("other.{name}") } else { name.replacen('.', "-other.", 1) };
        fs::copy(path, dir.path().join(&name)).unwrap();
        fs::remove_file(&own[gone.index(own.len())]).unwrap();
        prop_assert_ne!(told(dir.path()).0, Outcome::Protected, "{} with {} of {}", BROKEN[run], name, OTHERS[other]);
    }
}
