use std::path::Path;

use super::*;
use crate::{
    drain::fact::{Fact, Source},
    report::{input, scene::Item},
};

fn record(name: &str) -> Record {
    input::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/drains").join(name)).unwrap().record
}

fn whole(record: &Record) -> Scene {
    layout(record, Window::whole(&record.facts), WIDE)
}

/// Boxes of a class: where they begin and end, in units.
fn boxes(scene: &Scene, wanted: &str) -> Vec<(f64, f64)> {
    let of = |item: &Item| match item {
        Item::Rect { x, width, class, .. } if *class == wanted => Some((*x, x + width)),
        _ => None,
    };
    scene.items.iter().filter_map(of).collect()
}

/// Texts of a class.
fn texts<'a>(scene: &'a Scene, wanted: &str) -> Vec<&'a str> {
    let of = |item: &'a Item| match item {
        Item::Text { class, text, .. } if *class == wanted => Some(text.as_str()),
        _ => None,
    };
    scene.items.iter().filter_map(of).collect()
}

/// Exercises a real drain that was protected, so that its states stand where their instants are, and its intervals are told.
#[test]
fn protected() {
    let record = record("s2_improved_lb");
    let scene = whole(&record);
    let window = Window::whole(&record.facts);
    let x = |stamp: &str| {
        let at: jiff::Timestamp = stamp.parse().unwrap();
        Canvas::new(WIDE, window.from, window.to).scale.x(at.as_microsecond())
    };
    let expected = (x("2026-11-30T19:31:46.804983Z"), x("2026-11-30T19:31:48.530178Z"));
    assert_eq!(boxes(&scene, "band hc-draining"), [expected]);
    assert_eq!(
        texts(&scene, "span"),
        [
            "drain_to_active_zero 1.738186 s",
            "active_zero_to_lb_down 0.245334 s",
            "lb_down_to_first_rst 0.213083 s"
        ]
    );
    assert!(boxes(&scene, "band turning").len() == 1 && boxes(&scene, "band predicted").is_empty());
    assert_eq!(texts(&scene, "down"), ["LB: DOWN"]);
}

/// Exercises a real drain in which the LB was first, so that the negative interval points to the left and is called negative,
/// and the order of the instants shows in a closer picture.
#[test]
fn the_lb_was_first() {
    let record = record("s1_current_lb");
    let scene = whole(&record);
    let told = texts(&scene, "span negative");
    assert_eq!(told, ["active_zero_to_lb_down −0.004043 s (negative: the load balancer was first)"]);
    assert!(texts(&scene, "cut") == ["first cut"] && texts(&scene, "row").contains(&"cut: 1"));
    let close = Window::decisive(&record.facts).unwrap();
    assert!(close.length() < 1_000_000, "{close:?}");
    let closer = layout(&record, close, NARROW);
    assert_eq!(texts(&closer, "zero"), ["nothing in flight any more"]);
    let whole = Window::whole(&record.facts);
    assert!(whole.from < close.from && close.to < whole.to);
}

/// Exercises a record without a load balancer and with a silent proxy, so that both are hatched, and no line is drawn through
/// the silence.
#[test]
fn what_is_not_known() {
    let mut record = record("s2_improved");
    let length_us = 400_000;
    let ts = record.begun().unwrap() + 1_000_000;
    let why = "no answer".to_owned();
    record.facts.push(Timed { ts, fact: Fact::Gap { source: Source::Envoy, length_us, why } });
    record.facts.sort();
    let scene = whole(&record);
    assert!(texts(&scene, "label").contains(&"unknown: no load balancer was read"));
    let window = Window::whole(&record.facts);
    let scale = Canvas::new(WIDE, window.from, window.to).scale;
    let silent = (scale.x(ts - length_us), scale.x(ts));
    // In the row of requests, and in that of what was not seen.
    assert_eq!(boxes(&scene, "unknown").iter().filter(|span| **span == silent).count(), 2, "{silent:?}");
    let lines = scene.items.iter().filter_map(|item| match item {
        Item::Polyline { points, class: "line solid" } => Some(points),
        _ => None,
    });
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), 3, "requests before and after the silence, and connections");
    assert!(
        lines[0].iter().all(|point| point.x <= silent.0) && lines[1].iter().all(|point| point.x >= silent.1)
    );
    assert_eq!(texts(&scene, "span quiet").len(), 2);
}

/// Exercises an end that the join took for the client's, while the load balancer had marked the pod DOWN, so that the picture
/// shows what the verdict says.
#[test]
fn whom_the_verdict_blames() {
    let mut record = record("s1_current_lb");
    for timed in &mut record.facts {
        if let Fact::TcpTeardown(end) = &mut timed.fact {
            "client_abort".clone_into(&mut end.cause);
        }
    }
    let blamed = Record::of("n", "p", "u", record.facts.clone(), 0).unwrap();
    assert_eq!((blamed.verdict.counts.cuts, blamed.verdict.counts.client_aborts), (1, 0));
    assert!(texts(&whole(&blamed), "row").contains(&"cut: 1"));
    record
        .facts
        .retain(|timed| !matches!(timed.fact, Fact::HaproxyBackendDown { .. } | Fact::LbStatus { .. }));
    let aborted = Record::of("n", "p", "u", record.facts, 0).unwrap();
    assert_eq!(aborted.verdict.counts.client_aborts, 1);
    assert!(texts(&whole(&aborted), "row").contains(&"given up by their clients: 1"));
}
