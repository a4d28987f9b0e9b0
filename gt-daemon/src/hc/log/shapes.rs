//! The table of log shapes, `testdata/hc/logs.toml`, read from files as a container runtime leaves them.

use std::{fs, sync::Arc};

use gt_common::connection::HcState;
use jiff::Timestamp;
use proptest::prelude::*;
use serde::Deserialize;

use super::pod::PodLog;
use crate::hc::{
    names::Names,
    observation::{Observation, What},
    states::States,
};

#[derive(Deserialize)]
struct Table {
    shape: Vec<Shape>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    name: String,
    from_where: String,
    #[serde(default)]
    aliases: Vec<String>,
    lines: String,
    told: Vec<String>,
}

impl Shape {
    fn names(&self) -> Names {
        Names::default().with(self.aliases.iter().map(|alias| alias.parse().unwrap()))
    }

    fn bytes(&self) -> Vec<u8> {
        self.lines.split("<ff>").map(str::as_bytes).collect::<Vec<_>>().join(&0xff)
    }
}

fn table() -> Vec<Shape> {
    toml::from_str::<Table>(include_str!("../../../testdata/hc/logs.toml")).unwrap().shape
}

fn word(state: HcState) -> String {
    match state {
        HcState::Unknown => "?".to_owned(),
        known => format!("{known:?}").to_uppercase(),
    }
}

/// One transition as the table writes it.
fn written(observation: &Observation) -> String {
    let What::Transition { from, to } = observation.what else { return format!("{:?}", observation.what) };
    let at = Timestamp::from_microsecond(observation.at_us).unwrap();
    format!("{at} {} {}", word(from.state()), word(to))
}

/// What a log with these bytes tells, written in pieces of `piece` bytes with a look after each.
fn told(bytes: &[u8], names: Names, piece: usize) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("0.log");
    let mut log = PodLog::new(dir.path().to_owned(), Arc::new(names));
    let mut out = Vec::new();
    let mut end = 0;
    while end < bytes.len() {
        end = (end + piece).min(bytes.len());
        fs::write(&path, &bytes[..end]).unwrap();
        log.round(&mut out).unwrap();
    }
    out.iter().map(written).collect()
}

/// Exercises every shape, so that each tells its transitions and no other, from where it says it comes.
#[test]
fn every_shape() {
    let shapes = table();
    assert!(shapes.len() >= 30);
    for shape in shapes {
        assert!(!shape.from_where.is_empty());
        let expected: Vec<_> = shape
            .told
            .iter()
            .map(|told| {
                let (at, states) = told.split_once(' ').unwrap();
                format!("{} {states}", at.parse::<Timestamp>().unwrap())
            })
            .collect();
        assert_eq!(told(&shape.bytes(), shape.names(), usize::MAX / 2), expected, "{}", shape.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Exercises every shape written bit by bit, so that where the writes end changes nothing.
    #[test]
    fn in_any_pieces(piece in 20_usize..300) {
        for shape in table().into_iter().filter(|shape| shape.lines.len() < 600) {
            let bytes = shape.bytes();
            let whole = told(&bytes, shape.names(), usize::MAX / 2);
            prop_assert_eq!(told(&bytes, shape.names(), piece), whole, "{}", shape.name);
        }
    }

    /// Exercises every shape with lines of others between, so that they change nothing.
    #[test]
    fn among_other_lines(noise in "[a-zA-Z0-9=\" {}]{0,60}") {
        let other = format!("2026-11-30T07:16:46Z stdout F {noise}\n");
        for shape in table().into_iter().filter(|shape| shape.lines.ends_with('\n')) {
            let bytes = shape.bytes();
            let whole = told(&bytes, shape.names(), usize::MAX / 2);
            let among = [other.as_bytes(), &bytes, other.as_bytes()].concat();
            prop_assert_eq!(told(&among, shape.names(), usize::MAX / 2), whole, "{}", shape.name);
        }
    }
}

/// Exercises the words, so that a state in the table is what the code calls it.
#[test]
fn words_of_the_table() {
    assert_eq!(word(HcState::Draining), "DRAINING");
    assert_eq!(word(States::UP.state()), "?");
}
