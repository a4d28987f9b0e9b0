//! Whole pages from any facts, read back by a parser that is not gt's.

use std::time::Instant;

use proptest::prelude::*;
use roxmltree::{Document, Node};

use super::{
    index::{Entry, index},
    page::{Page, page},
};
use crate::drain::{
    fact::{End, Fact, Hc, Serving, Source, Timed, Way},
    record::Record,
};

const BASE: i64 = 1_780_211_554_000_000;

fn shown(record: &Record, goes_on: bool) -> String {
    page(&Page { record, goes_on, remarks: &["a <remark>".to_owned()], home: Some("/") })
}

/// The page as XML: it differs from that by elements that HTML leaves open.
fn xml(page: &str) -> String {
    let mut text = page.trim_start_matches("<!DOCTYPE html>").to_owned();
    for tag in ["<meta ", "<link ", "<br"] {
        let mut parts = text.split(tag);
        let mut closed = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            closed.push_str(tag);
            closed.push_str(&part.replacen('>', "/>", 1));
        }
        text = closed;
    }
    text
}

fn numbers(text: &str) -> Vec<f64> {
    let parts = text.split(|letter: char| !letter.is_ascii_digit() && letter != '.' && letter != '-');
    parts.filter(|part| !part.is_empty()).map(|part| part.parse().unwrap()).collect()
}

/// Every place in a picture is in its view box.
fn check_places(svg: Node<'_, '_>) {
    let view = numbers(svg.attribute("viewBox").unwrap());
    let (width, height) = (view[2], view[3]);
    assert!(width > 0.0 && height > 0.0 && height < 5_000.0, "{view:?}");
    let inside = |name: &str, number: f64, most: f64| {
        assert!(number.is_finite() && (0.0..=most).contains(&number), "{name}={number} of {most}");
    };
    for node in svg.descendants() {
        for attribute in node.attributes() {
            let values = || numbers(attribute.value());
            match attribute.name() {
                name @ ("x" | "x1" | "x2" | "width") => inside(name, values()[0], width),
                name @ ("y" | "y1" | "y2" | "height") => inside(name, values()[0], height),
                name @ ("points" | "d") => {
                    for pair in values().chunks(2) {
                        inside(name, pair[0], width);
                        inside(name, pair[1], height);
                    }
                }
                _ => {}
            }
        }
        let of = |name: &str| node.attribute(name).map_or(0.0, |value| numbers(value)[0]);
        if node.tag_name().name() == "rect" {
            inside("x + width", of("x") + of("width") - 0.01, width);
            inside("y + height", of("y") + of("height") - 0.01, height);
        }
    }
}

/// Parses a page and looks at all its pictures; returns its text.
fn check(page: &str) -> String {
    let xml = xml(page);
    let document = Document::parse(&xml).unwrap_or_else(|error| panic!("{error}: {xml}"));
    let all = || document.descendants();
    let pictures: Vec<_> = all().filter(|node| node.attribute("role") == Some("img")).collect();
    pictures.iter().for_each(|svg| check_places(*svg));
    for svg in &pictures {
        let names: Vec<&str> = svg.children().map(|child| child.tag_name().name()).take(2).collect();
        assert_eq!(names, ["title", "desc"]);
    }
    assert!(!all().any(|node| node.tag_name().name() == "script"));
    let is_outside = |value: &str| value.contains("//") && value != "http://www.w3.org/2000/svg";
    let links =
        || all().flat_map(|node| node.attributes().map(|attribute| attribute.value()).collect::<Vec<_>>());
    let pointing: Vec<_> =
        all().filter_map(|node| node.attribute("href").or(node.attribute("src"))).collect();
    assert!(!pointing.iter().any(|value| is_outside(value)), "{pointing:?}");
    assert!(links().all(|value| !value.starts_with("javascript:")));
    document.root_element().descendants().filter_map(|node| node.text()).collect()
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("lb_flush".to_owned()),
        Just("client_abort".to_owned()),
        Just("</title><script>alert(1)</script>".to_owned()),
        Just("\" onload=\"x\u{0}\u{1b}\u{202e}".to_owned()),
        any::<String>(),
    ]
}

fn end() -> impl Strategy<Value = End> {
    let maybe = || prop::option::of(word());
    (
        prop::option::of(0_u64..4),
        word(),
        maybe(),
        word(),
        any::<bool>(),
        any::<u64>(),
        maybe(),
        maybe(),
        maybe(),
    )
        .prop_map(|(connection, how, evidence, cause, sure, count, phase, protocol, remote)| End {
            connection,
            how,
            evidence,
            cause,
            sure,
            count,
            phase,
            protocol,
            remote,
        })
}

fn hc() -> impl Strategy<Value = Option<Hc>> {
    prop::option::of(prop::sample::select(vec![Hc::Open, Hc::Draining, Hc::Closing, Hc::Closed, Hc::Fault]))
}

fn fact() -> impl Strategy<Value = Fact> {
    let serving = || prop::option::of(prop::sample::select(vec![Serving::Up, Serving::NoNew, Serving::Down]));
    let sources = vec![Source::Kernel, Source::Hc, Source::Envoy, Source::Pods, Source::Lb, Source::Record];
    prop_oneof![
        (hc(), hc(), prop::option::of(any::<u16>())).prop_map(|(from, to, lb_told)| Fact::HcState {
            from,
            to,
            lb_told
        }),
        (word(), prop::option::of(word()), serving()).prop_map(|(server, status, serving)| Fact::LbStatus {
            server,
            status,
            serving
        }),
        (word(), prop::option::of(instant()), any::<bool>())
            .prop_map(|(server, last_up, predicted)| Fact::HaproxyBackendDown { server, last_up, predicted }),
        any::<i64>().prop_map(|grace_seconds| Fact::PodDeleted { grace_seconds }),
        Just(Fact::EnvoyDrainListeners),
        (prop::option::of(any::<u64>()), prop::option::of(0_u64..5))
            .prop_map(|(downstream, upstream)| Fact::EnvoyActiveCount { downstream, upstream }),
        (any::<u64>(), any::<u64>()).prop_map(|(active, closing)| Fact::Connections { active, closing }),
        end().prop_map(Fact::TcpTeardown),
        (prop::option::of(any::<u64>()), prop::sample::select(vec![Way::Sent, Way::Received]), any::<bool>())
            .prop_map(|(connection, direction, in_flight)| Fact::TcpRst { connection, direction, in_flight }),
        Just(Fact::PodGone),
        Just(Fact::Ended),
        (prop::sample::select(sources), any::<i64>(), word())
            .prop_map(|(source, length_us, why)| Fact::Gap { source, length_us, why }),
    ]
}

/// Instants that a stamp can have: close together, and from the whole calendar.
fn instant() -> impl Strategy<Value = i64> {
    let far = jiff::Timestamp::MIN.as_microsecond()..=jiff::Timestamp::MAX.as_microsecond();
    prop_oneof![8 => BASE..BASE + 20_000_000, 4 => BASE..BASE + 100, 1 => far]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Exercises any facts of any drain, with names that would be markup, so that the page is whole, and every place in its
    /// pictures is in them.
    #[test]
    fn any_drain(
        facts in prop::collection::vec((instant(), fact()), 1..40),
        namespace in word(), pod in word(), uid in word(), goes_on: bool,
    ) {
        let mut facts: Vec<Timed> = facts.into_iter().map(|(ts, fact)| Timed { ts, fact }).collect();
        facts.sort();
        if let Some(record) = Record::of(&namespace, &pod, &uid, facts, 1) {
            check(&shown(&record, goes_on));
            let entry = Entry { href: "/drains/1".to_owned(), summary: record.summary(), goes_on };
            check(&index(Some(&pod), Some(&uid), &[entry]));
        }
    }
}

fn at(ts: i64, fact: Fact) -> Timed {
    Timed { ts: BASE + ts, fact }
}

fn ended(connection: u64, evidence: Option<&str>) -> Fact {
    Fact::TcpTeardown(End {
        connection: Some(connection),
        phase: Some("awaiting".to_owned()),
        protocol: Some("http1".to_owned()),
        remote: Some("[2001:db8::1]:40000".to_owned()),
        ..End::new("fin_received", evidence, "lb_flush")
    })
}

/// Exercises a record as large as gt makes them, hundreds of ends in one instant among them, so that the page stays small
/// and its marks few, and no number is lost.
#[test]
fn a_large_record() {
    let mut facts = vec![at(0, Fact::PodDeleted { grace_seconds: 30 })];
    facts.extend((0..700).map(|number| at(5_000_000, ended(number, Some("l7")))));
    facts.extend((0_u64..3_000).map(|number| at(6_000_000 + number as i64, ended(1_000 + number, None))));
    facts.extend((0_u64..12_000).map(|number| {
        at(number as i64 * 700, Fact::EnvoyActiveCount { downstream: Some(number % 97), upstream: None })
    }));
    facts.sort();
    let record = Record::of("n", "p", "u", facts, 0).unwrap();
    let started = Instant::now();
    let page = shown(&record, false);
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    assert!(page.len() < 6 << 20, "{} bytes", page.len());
    check(&page);
    let pictures = page.split("<svg").filter(|svg| svg.starts_with(" class=\"picture"));
    for picture in pictures {
        let picture = picture.split("</svg>").next().unwrap();
        assert!(picture.len() < 256 << 10, "{} bytes", picture.len());
        assert!(picture.matches("<path class=\"mark").count() < 200);
    }
    assert!(page.contains("cut: 700") && page.contains(">×700<"), "700 cuts in one mark");
    assert!(page.contains("ended with nothing in flight: 3000"));
}

/// Exercises names and words that are markup, so that they are text on the page, and nothing else of them is.
#[test]
fn hostile_names() {
    let hostile = "</title></svg><img src=x onerror=alert(1)>&amp;";
    let facts = vec![
        at(0, Fact::PodDeleted { grace_seconds: 30 }),
        at(
            1,
            Fact::LbStatus {
                server: hostile.to_owned(),
                status: Some(hostile.to_owned()),
                serving: Some(Serving::Up),
            },
        ),
        at(2, Fact::Gap { source: Source::Lb, length_us: 1, why: hostile.to_owned() }),
    ];
    let record = Record::of(hostile, hostile, hostile, facts, 0).unwrap();
    let page = shown(&record, true);
    assert!(!page.contains("<img"));
    assert!(check(&page).contains(hostile));
}

/// Exercises pages of drains that go on and that are over, so that only the first is asked for again, and both forbid
/// everything but their own style.
#[test]
fn policy_and_refresh() {
    let record = Record::of("n", "p", "u", vec![at(0, Fact::PodGone)], 0).unwrap();
    let (live, over) = (shown(&record, true), shown(&record, false));
    assert!(live.contains("http-equiv=\"refresh\"") && live.contains("so far: the drain goes on"));
    assert!(!over.contains("http-equiv=\"refresh\""));
    assert!(over.contains("default-src 'none'; style-src 'sha256-"));
    assert!(!over.contains("style=\"") && !over.contains("<script"));
}
