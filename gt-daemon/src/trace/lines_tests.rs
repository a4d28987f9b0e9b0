use super::*;
use crate::drain::fact::Source;
use crate::drain::fact::Way;

fn fact(word: Word, fact: Fact) -> Message {
    Message::Fact {
        namespace: "edge".to_owned(),
        pod: "igw".to_owned(),
        uid: "u".to_owned(),
        word,
        fact: Timed { ts: 1_780_211_554_000_001, fact },
    }
}

fn line(message: &Message) -> String {
    Lines::default().line(message).unwrap()
}

fn end(evidence: Option<&str>, sure: bool) -> Fact {
    Fact::TcpTeardown(End {
        connection: Some(7),
        sure,
        phase: Some("awaiting".to_owned()),
        protocol: Some("http1".to_owned()),
        remote: Some("10.0.0.1:4".to_owned()),
        ..End::new("fin_received", evidence, "lb_flush")
    })
}

/// Exercises an end from its first word to its last, so that what is not known is never called a cut, nor its absence.
#[test]
fn ends() {
    let tail = "phase=awaiting protocol=http1 remote=10.0.0.1:4 connection=7";
    for (word, evidence, sure, expected) in [
        (Word::Seen, Some("socket"), false, "end, not judged yet: fin_received evidence=socket "),
        (Word::Told, Some("l7"), true, "CUT: fin_received cause=lb_flush evidence=l7 "),
        (Word::Told, Some("possible"), false, "possible CUT: fin_received cause=lb_flush evidence=possible "),
        (Word::Told, None, true, "end, nothing cut: fin_received "),
        (Word::Told, None, false, "end, not known whether a request was cut: fin_received "),
    ] {
        let expected = format!("2026-05-31T07:12:34.000001Z edge/igw {expected}{tail}");
        assert_eq!(line(&fact(word, end(evidence, sure))), expected);
    }
    assert!(line(&fact(Word::Better, end(None, true))).ends_with("connection=7 (better known than before)"));
}

/// Exercises the other kinds of facts, so that what is not known is said to be so.
#[test]
fn facts() {
    let rst =
        |connection| Fact::TcpRst { connection, direction: Way::Received, in_flight: connection.is_some() };
    let down = Fact::HaproxyBackendDown { server: "igw/1".to_owned(), last_up: Some(1), predicted: true };
    let status = Fact::LbStatus { server: "igw/1".to_owned(), status: None, serving: None };
    for (what, expected) in [
        (
            Fact::HcState { from: None, to: Some(Hc::Open), lb_told: Some(200) },
            "hc unknown -> OPEN, tells the LB 200",
        ),
        (
            Fact::EnvoyActiveCount { downstream: Some(0), upstream: None },
            "in flight 0 downstream, unknown upstream",
        ),
        (rst(Some(3)), "RST received, connection 3, a request was in flight"),
        (rst(None), "RST received, no connection"),
        (down, "LB igw/1: took it for down, last seen up 1970-01-01T00:00:00.000001Z, predicted"),
        (status, "LB igw/1: is not known to serve"),
        (Fact::PodDeleted { grace_seconds: 30 }, "deletion asked for, 30 s to end"),
        (
            Fact::Gap { source: Source::Kernel, length_us: 1_250_000, why: "x".to_owned() },
            "GAP: kernel for 1.250 s: x",
        ),
    ] {
        assert_eq!(line(&fact(Word::Told, what)), format!("2026-05-31T07:12:34.000001Z edge/igw {expected}"));
    }
}

/// Exercises states of a pod, so that the first one is told and the many that follow are not; and a reader's losses, which are.
#[test]
fn states_and_gaps() {
    let mut lines = Lines::default();
    let status = PodStatus {
        namespace: "edge".to_owned(),
        pod: "igw".to_owned(),
        now: "now".to_owned(),
        downstream: Some(2),
        ..PodStatus::default()
    };
    let message = Message::Pod(Box::new(status));
    assert_eq!(lines.line(&message).unwrap(), "now edge/igw is watched: in flight 2, cuts 0");
    assert_eq!(lines.line(&message), None);
    assert!(line(&Message::Lost { messages: 3 }).contains("GAP: 3 messages were lost"));
    let gap = Message::Gap { node: Some("n1".to_owned()), why: "it broke".to_owned(), now: "now".to_owned() };
    assert_eq!(line(&gap), "now - GAP: gt-daemon on n1 is not heard: it broke");
}
