//! HAProxy's log in its forms, and lines that are cut off or none.

use proptest::prelude::*;

use super::*;

const CUT: &str = "127.0.0.1:60058 [30/Nov/2026:07:11:43.828] fe be/pod1 0/0/0/-1/4706 502 209 - - DH-- 6/6/5/5/0 0/0 \"GET /sleep HTTP/1.1\"";
const DOWN: &str = "Server be/pod1 is DOWN, reason: Layer7 wrong status, code: 503, info: \"Service Unavailable\", check duration: 1ms. \
                    0 active and 0 backup servers left. 6 sessions active, 0 requeued, 0 remaining in queue.";
const AT: i64 = 1_796_022_708_537_337;

fn told(text: &str) -> (Told, String) {
    let mut notes = Notes::on("haproxy.log");
    let told = read(text.as_bytes(), &mut notes).unwrap();
    (told, notes.list().iter().map(ToString::to_string).collect())
}

/// Exercises what stands before a message in RFC 5424, in HAProxy's iso form and in rsyslog's, so that each is read.
#[test]
fn heads() {
    for head in [
        "<134>1 2026-11-30T07:11:48.537337+00:00 - haproxy 13050 - - ",
        "2026-11-30T07:11:48.537337+00:00 ",
        "2026-11-30T16:11:48.537337+09:00 lb-haproxy haproxy[13050]: ",
    ] {
        let (told, notes) = told(&format!("{head}{DOWN}\n{head}{CUT}\n"));
        assert_eq!(notes, "");
        assert_eq!(
            told.changes,
            [Change { ts: AT, server: "be/pod1".to_owned(), up: false, sessions: Some(6), by_answer: true }]
        );
        let session = &told.sessions[0];
        assert_eq!((session.ts, session.status, session.who, session.phase), (AT, Some(502), 'D', 'H'));
        assert!(session.is_cut() && told.ends["be/pod1"] == [AT] && told.retries.is_empty());
    }
    assert!(told(&format!("Nov 30 07:11:48 lb haproxy[1]: {DOWN}\n")).1.contains("format rfc5424"));
}

/// Exercises ends of sessions, so that only those with a request at the server are cuts.
#[test]
fn ends() {
    let line = |server: &str, rest: &str| {
        let (told, notes) = told(&format!(
            "2026-11-30T07:11:48.537337Z 1.1.1.1:1 [30/Nov/2026:07:11:43.828] fe be/{server} {rest}\n"
        ));
        assert_eq!(notes, "");
        (told.sessions.iter().any(Session::is_cut), told.retries.len())
    };
    assert_eq!(line("pod1", "0/0/0/3/4 200 126 - - ---- 1/1/0/0/0 0/0 \"GET / HTTP/1.1\""), (false, 0));
    assert_eq!(line("pod1", "0/0/0/3/4 200 126 - - D--- 1/1/0/0/0 0/0 \"GET / HTTP/1.1\""), (false, 0));
    assert_eq!(line("pod1", "0/0/0/3/4 200 +126 - - CD-- 1/1/0/0/+1 0/0 \"GET / HTTP/1.1\""), (true, 1));
    assert_eq!(line("<NOSRV>", "0/-1/-1/-1/0 503 217 - - SC-- 1/1/0/0/3 0/0 \"GET / HTTP/1.1\""), (false, 1));
    assert_eq!(line("pod1", "0/0/4739 176 DD 1/1/0/0/0 0/0"), (true, 0));
}

/// Exercises lines that are cut off or hold a change's words in a request, so that they count for nothing.
#[test]
fn no_lines() {
    let (cut, notes) = told(&format!("2026-11-30T07:11:48Z {}\"x\"\n", &CUT[..70]));
    assert!(cut.sessions.is_empty() && notes.contains("line 1: looks like a session and is none"), "{notes}");
    let (none, notes) = told(
        "2026-11-30T07:11:48Z x \"GET /?Server be/pod1 is DOWN, HTTP/1.1\"\n2026-11-30T07:11:48Z Proxy fe started.\n",
    );
    assert!(none == Told::default() && notes.is_empty());
}

/// Exercises sessions in forms that are not read, so that the log is no account; and what HAProxy says of itself, so that it is.
#[test]
fn other_forms() {
    let is_whole = |text: &str| {
        let mut notes = Notes::on("haproxy.log");
        read(format!("2026-11-30T07:11:48.537337Z {text}\n").as_bytes(), &mut notes).unwrap();
        notes.is_whole()
    };
    for text in [
        "{\"client\":\"127.0.0.1:38902\",\"backend\":\"be\",\"server\":\"pod1\",\"status\":200,\"term\":\"----\"}",
        "client=127.0.0.1:38902 backend=be server=pod1 status=502 term=SH--",
        "backend=be server=pod1 status=502",
        "Connect from 10.0.0.1:1 to 10.0.0.2:80 (fe/HTTP)",
        "10.0.0.1:1 [30/Nov/2026:07:11:43.828] fe be/pod1 0/0/0/-1/4706",
    ] {
        assert!(!is_whole(text), "{text}");
    }
    for text in [
        "Proxy fe started.",
        "backend be has no server available!",
        "10.0.0.1:1 [30/Nov/2026:07:11:43.828] fe/1: SSL handshake failure",
        "Health check for server be/pod1 failed, reason: Layer7 wrong status, code: 503, check duration: 1ms, status: 1/2 UP.",
        "be/pod1 changed its IP from 10.0.0.1 to 10.0.0.2 by DNS cache.",
    ] {
        assert!(is_whole(text), "{text}");
    }
}

/// Exercises a last line without its end and one that is there twice, so that a cut is not lost, and no end counts twice.
#[test]
fn last_and_twice() {
    let line = format!("2026-11-30T07:11:48.537337Z {CUT}");
    let (told, notes) = told(&format!("{line}\n{line}\n{}", line.replace(":60058", ":60059")));
    assert!(notes.contains("line 3: has no end"), "{notes}");
    assert_eq!((told.ends["be/pod1"].len(), told.sessions.len()), (1, 2));
}

proptest! {
    /// Exercises any text, so that none panics.
    #[test]
    fn any_text(text in "(.{0,90}\n){0,4}") {
        let _whatever = told(&text);
        let _whatever = told(&format!("2026-11-30T07:11:48Z Server {text}"));
    }

    /// Exercises lines cut off anywhere, so that none passes for another.
    #[test]
    fn cut_off(at in 0_usize..150) {
        let line = format!("2026-11-30T07:11:48.537337Z {CUT}");
        let told = told(&format!("{}\n", line.get(..at.min(line.len())).unwrap_or_default())).0;
        prop_assert!(told.sessions.iter().all(Session::is_cut));
    }
}
