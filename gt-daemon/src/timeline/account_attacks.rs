//! Ways in which an account of every request could be one of other requests: of other servers, other Envoys, other moments.

use std::fs;

use super::{
    attacks::{change, lacking, told, without},
    tests::{copy, testdata},
};
use crate::drain::verdict::Outcome;

const CLIENT_GONE: &str = "<134>1 2026-11-30T07:12:02.332621+00:00 - haproxy 13299 - - 127.0.0.1:41500 [30/Nov/2026:07:11:54.593] fe be/pod1 \
                           0/0/0/5/739 200 176 - - CD-- 1/1/0/0/0 0/0 \"GET /x HTTP/1.1\"\n";

/// Exercises a client that gave up just when the load balancer cut another's request, so that Envoy's count of one is not taken
/// for the client's.
#[test]
fn count_of_envoy() {
    for moment in ["07:12:02.332621", "07:11:55.332621"] {
        let dir = lacking("B_h1_stream", &["pod.pcap", "haproxy-stat-timeline.csv", "curl_s.out"]);
        change(&dir, "envoy.log", |text| {
            without(text, |_, line| line.contains("flags=D") || line.contains(" DC "))
        });
        change(&dir, "haproxy.log", |text| {
            without(text, |_, line| line.contains(" SD-- ") || line.contains(" DD-- "))
                + &CLIENT_GONE.replace("07:12:02.332621", moment)
        });
        let (outcome, why) = told(dir.path());
        assert!(outcome == Outcome::Inconclusive && why.contains("Envoy counted 1 cuts"), "{moment}: {why}");
    }
}

const DOWN: &str = "is DOWN, reason: Layer7 wrong status, code: 503, info: \"Service Unavailable\", check duration: 1ms. \
                    0 active and 0 backup servers left.";
const OK: &str = "127.0.0.1:60058 [30/Nov/2026:07:11:43.828] fe be1/pod1 0/0/0/4/4706 200 209 - - ---- 6/6/5/5/0 0/0 \"GET /ok HTTP/1.1\"";

/// A run of which the sidecar, Envoy's numbers and HAProxy alone tell.
fn by_haproxy(files: &[(&str, String)]) -> (Outcome, String) {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(testdata("A2_h1_sleep_x6/hc.log"), dir.path().join("hc.log")).unwrap();
    fs::write(
        dir.path().join("envoy-active.tsv"),
        "2026-11-30T07:11:49Z\thttp.a.downstream_rq_active: 0 cluster.b.upstream_rq_active: 0\n",
    )
    .unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    told(dir.path())
}

fn log(name: &'static str, lines: &[String]) -> (&'static str, String) {
    (name, lines.iter().map(|line| format!("2026-11-30T07:11:48.53{line}\n")).collect())
}

fn down(server: &str, sessions: u32) -> String {
    format!("4883+00:00 Server {server} {DOWN} {sessions} sessions active, 0 requeued, 0 remaining in queue.")
}

/// Exercises ends of sessions at another server, of another HAProxy and of one line that is there twice, so that each server's
/// sessions are accounted for by their own.
#[test]
fn accounts_of_each_server() {
    let end = |server: &str, port: u32| {
        format!("4900+00:00 {}", OK.replace("be1/pod1", server).replace("60058", &port.to_string()))
    };
    let (one, two) = ("be1/pod1", "be2/pod1");
    let whole = log("haproxy.log", &[down(one, 2), end(one, 1), end(one, 2)]);
    assert_eq!(by_haproxy(&[whole]).0, Outcome::Protected);
    for files in [
        vec![log("haproxy.log", &[down(one, 2), end(one, 1), end(one, 1)])],
        vec![log("haproxy.log", &[down(one, 0), down(two, 2), end(one, 1), end(one, 2)])],
        vec![log("haproxy-lb1.log", &[down(one, 3)]), log("haproxy-lb2.log", &[down(one, 0)])],
        vec![log("haproxy-lb1.log", &[down(one, 1)]), log("haproxy-lb2.log", &[down(one, 0), end(one, 1)])],
    ] {
        let (outcome, why) = by_haproxy(&files);
        assert!(outcome == Outcome::Inconclusive && why.contains("how each session ended"), "{why}");
    }
    // Statistics of one of two servers.
    let looks = "# ts,pxname,svname,scur,status,eresp,srv_abrt\n2026-11-30T07:11:43.4Z,be1,pod1,0,UP,0,0\n\
                 2026-11-30T07:11:48.5Z,be1,pod1,0,DOWN,0,0\n";
    let looks = ("haproxy-stat-timeline.csv", looks.to_owned());
    assert_eq!(by_haproxy(&[looks.clone(), log("haproxy.log", &[down(one, 0)])]).0, Outcome::Protected);
    let (outcome, why) = by_haproxy(&[looks, log("haproxy.log", &[down(one, 0), down(two, 3)])]);
    assert!(
        outcome == Outcome::Inconclusive && why.contains("do not have each of the pod's servers"),
        "{why}"
    );
}

/// Exercises a HAProxy and an Envoy that were started anew between two looks, so that their counts, at zero again, account for
/// nothing.
#[test]
fn started_anew() {
    let looks = |before: &str, after: &str| {
        let text = format!(
            "# ts,pxname,svname,scur,status,lastchg,eresp,srv_abrt\n2026-11-30T07:11:43.4Z,be,pod1,{before},0,0\n\
             2026-11-30T07:11:46.4Z,be,pod1,{after},0,0\n2026-11-30T07:11:49.5Z,be,pod1,0,DOWN,0,0,0\n"
        );
        by_haproxy(&[("haproxy-stat-timeline.csv", text)]).0
    };
    assert_eq!(looks("6,UP,1000", "0,UP,1003"), Outcome::Protected);
    assert_eq!(looks("6,UP,1000", "6,UP,1003"), Outcome::Inconclusive, "sessions at the last look");
    assert_eq!(looks("6,UP,1000", "0,UP,2"), Outcome::Inconclusive, "up for less than before");
    let without_haproxy = ["pod.pcap", "envoy.log"];
    let dir = lacking("I1_impr_h1_sleep", &without_haproxy);
    for name in ["haproxy.log", "haproxy-stat-timeline.csv"] {
        // DOWN is told, and no account of HAProxy's.
        change(&dir, name, |text| text.replace(",eresp,srv_abrt", ",x,y").replace("0 sessions active, ", ""));
    }
    assert_eq!(told(dir.path()).0, Outcome::Protected);
    change(&dir, "stats_before.txt", |text| text.replace("server.uptime: 0", "server.uptime: 900"));
    let (outcome, why) = told(dir.path());
    assert!(outcome == Outcome::Inconclusive && why.contains("they began anew"), "{why}");
    change(&dir, "stats_before.txt", |text| text.replace("server.uptime: 900", "server.uptime: 20"));
    let (outcome, why) = told(dir.path());
    assert!(outcome == Outcome::Inconclusive && why.contains("ran for less time"), "{why}");
    let dir = lacking("I1_impr_h1_sleep", &without_haproxy);
    change(&dir, "stats_after.txt", |text| without(text, |_, line| line.contains("rq_active:")));
    for name in ["haproxy.log", "haproxy-stat-timeline.csv"] {
        change(&dir, name, |text| text.replace(",eresp,srv_abrt", ",x,y").replace("0 sessions active, ", ""));
    }
    assert_ne!(told(dir.path()).0, Outcome::Protected, "nobody told that nothing was in flight");
}

/// Exercises a cut that only HAProxy's last line tells, which has no end, so that it is not lost.
#[test]
fn last_line() {
    let dir = copy("E_h1_idle");
    let cut = "<134>1 2026-11-30T07:12:51.005467+00:00 - haproxy 1 - - 127.0.0.1:41500 [30/Nov/2026:07:12:48.593] fe be/pod1 \
               0/0/0/-1/739 502 176 - - SH-- 1/1/0/0/0 0/0 \"GET /x HTTP/1.1\"";
    change(&dir, "haproxy.log", |text| text.to_owned() + cut);
    assert_eq!(told(dir.path()).0, Outcome::Broken);
}
