//! The tables of docs/gt-hc.md are the expectation: each cell is asked for and compared.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::log::Log;

const DOCS: &str = include_str!("../../docs/gt-hc.md");
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn open() -> Sidecar {
    Sidecar::new(Log::start(std::io::sink()).0)
}

fn in_state(name: &str) -> Sidecar {
    let causes: &[Cause] = match name {
        "OPEN" => &[],
        "DRAINING" => &[Cause::DrainRequested],
        "CLOSING" => &[Cause::DrainRequested, Cause::ActiveZero],
        "CLOSED" => &[Cause::DrainRequested, Cause::ActiveZero, Cause::LbBufferOver],
        "FAULT" => &[Cause::DrainRequested, Cause::DrainTimeout],
        "OPEN, reopened from CLOSING" => &[Cause::DrainRequested, Cause::ActiveZero, Cause::ReopenRequested],
        "OPEN, reopened from FAULT" => &[Cause::DrainRequested, Cause::DrainTimeout, Cause::ReopenRequested],
        other => panic!("docs/gt-hc.md has a row for a state that is not known: {other}"),
    };
    let sidecar = open();
    for cause in causes {
        sidecar.apply(*cause).unwrap();
    }
    sidecar
}

/// The table whose first header cell is `State` and whose second begins with `begin`: header and rows.
fn table(begin: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let cells = |line: &str| {
        line.trim().trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect::<Vec<_>>()
    };
    let mut lines = DOCS.lines().skip_while(|line| !line.starts_with(&format!("| State | `{begin}")));
    let header = cells(lines.next().expect("the table is in the document"));
    let rows: Vec<_> = lines.skip(1).take_while(|line| line.starts_with('|')).map(cells).collect();
    assert!(!rows.is_empty());
    (header, rows)
}

/// Exercises every cell of the table of answers, with GET and HEAD.
#[test]
fn what_is_answered_in_each_state() {
    let (header, rows) = table("/health_check.html");
    assert_eq!(rows.len(), 7);
    for row in rows {
        let sidecar = in_state(&row[0]);
        for (path, cell) in header.iter().zip(&row).skip(1) {
            for method in [Method::GET, Method::HEAD] {
                let answer = answer(&sidecar, &method, path, LOOPBACK);
                let warned = if answer.warning.is_some() { " and Warning" } else { "" };
                assert_eq!(
                    format!("{}{warned}", answer.status.as_u16()),
                    *cell,
                    "{method} {path} in {}",
                    row[0]
                );
            }
        }
    }
}

/// Exercises every cell of the table of calls: code and the state it leaves behind.
#[test]
fn what_a_call_does_in_each_state() {
    let (header, rows) = table("POST /drain");
    assert_eq!(rows.len(), 5);
    for row in rows {
        for (call, cell) in header.iter().zip(&row).skip(1) {
            let sidecar = in_state(&row[0]);
            let path = call.strip_prefix("POST ").unwrap();
            let answer = answer(&sidecar, &Method::POST, path, LOOPBACK);
            let after = sidecar.view().state();
            let told = match answer.status.as_u16() {
                200 => format!("200 {after}"),
                status => {
                    assert_eq!(after.name(), row[0], "a refused {call} changes nothing");
                    let body: RefusalBody = serde_json::from_str(&answer.body).unwrap();
                    assert_eq!(body.state, after);
                    assert!(body.error.contains("allowed now: "), "{}", body.error);
                    status.to_string()
                }
            };
            assert_eq!(told, *cell, "{call} in {}", row[0]);
        }
    }
}

/// Exercises peers of both families, and IPv4 in IPv6's clothes, so that only the pod itself changes states.
#[test]
fn calls_from_inside_only() {
    let mapped = |v4: Ipv4Addr| IpAddr::V6(v4.to_ipv6_mapped());
    let outside = Ipv4Addr::new(10, 77, 0, 1);
    for (peer, expected) in [
        (LOOPBACK, 200),
        (IpAddr::V4(Ipv4Addr::new(127, 8, 8, 8)), 200),
        (IpAddr::V6(Ipv6Addr::LOCALHOST), 200),
        (mapped(Ipv4Addr::LOCALHOST), 200),
        (IpAddr::V4(outside), 403),
        (mapped(outside), 403),
        ("fd00::7".parse().unwrap(), 403),
        // Compatible, not mapped: nothing that a loopback device gives to anybody.
        ("::127.0.0.1".parse().unwrap(), 403),
    ] {
        for path in ["/drain", "/close-lb", "/close", "/reopen"] {
            let sidecar = open();
            let answer = answer(&sidecar, &Method::POST, path, peer);
            if expected == 403 {
                assert_eq!(answer.status.as_u16(), 403, "{peer}");
                assert!(answer.body.contains(&peer.to_canonical().to_string()), "{}", answer.body);
                assert!(answer.body.contains("gt-hc drain"), "{}", answer.body);
                assert_eq!(sidecar.view().state(), State::Open);
            } else {
                assert_ne!(answer.status.as_u16(), 403, "{peer}");
            }
        }
        // Health is everybody's to ask for.
        assert_eq!(answer(&open(), &Method::GET, "/health_check.html", peer).status.as_u16(), 200);
    }
}

/// Exercises wrong methods and paths so that a mistyped health check is told what there is.
#[test]
fn wrong_requests() {
    let sidecar = open();
    let ask = |method: Method, path: &str| answer(&sidecar, &method, path, LOOPBACK);
    assert_eq!(ask(Method::GET, "/drain").allow, Some("POST"));
    assert_eq!(ask(Method::GET, "/drain").status.as_u16(), 405);
    assert_eq!(ask(Method::POST, "/health").allow, Some("GET, HEAD"));
    let missing = ask(Method::GET, "/healthz");
    assert_eq!(missing.status.as_u16(), 404);
    assert!(missing.body.contains("/health_check.html"));
    assert_eq!(sidecar.view().state(), State::Open);
}

/// Exercises the three values of `active` in `/state`: nobody asked, not known, zero.
#[test]
fn absent_unknown_and_zero() {
    use crate::envoy::{Active, ReadError};

    let sidecar = open();
    let body = |sidecar: &Sidecar| answer(sidecar, &Method::GET, "/state", LOOPBACK).body;
    let started = body(&sidecar);
    assert!(started.contains(r#""state":"OPEN""#) && started.contains(r#""reason":"start""#), "{started}");
    assert!(started.contains(r#""active":null"#) && !started.contains("envoy"), "{started}");

    sidecar.apply(Cause::DrainRequested).unwrap();
    let refused =
        ReadError::Status { address: ([127, 0, 0, 1], 15000).into(), status: StatusCode::NOT_FOUND };
    sidecar.record_in(1, &Err(refused));
    let unknown = body(&sidecar);
    assert!(unknown.contains(r#""active":null"#) && unknown.contains("404"), "{unknown}");

    sidecar.record_in(1, &Ok(Active { downstream: 0, upstream: 0 }));
    let zero = body(&sidecar);
    assert!(zero.contains(r#""active":0"#) && zero.contains(r#""downstream":0"#), "{zero}");
    let parsed: StateBody = serde_json::from_str(&zero).unwrap();
    assert_eq!(parsed.since.len(), "2026-05-31T07:12:36.123456Z".len(), "{}", parsed.since);

    // What was found out in another stay says nothing about this one.
    sidecar.record_in(0, &Ok(Active { downstream: 9, upstream: 9 }));
    assert_eq!(body(&sidecar), zero);
}
