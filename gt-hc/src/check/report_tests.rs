use std::ffi::OsString;

use proptest::prelude::*;

use super::*;
use crate::{
    check::{Flags, numbers},
    seconds,
    settings::Given,
};

/// A check of `drain timeout, LB buffer` in the environment and `name=value` flags.
fn check(environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Report {
    let variable = |name: &str| {
        environment.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(*value))
    };
    let flag =
        |name: &str| flags.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let flags = Flags {
        grace_period: flag("grace-period"),
        drain_duration: flag("drain-duration"),
        p99: flag("p99"),
        inter: flag("inter"),
        fall: flag("fall"),
    };
    Report::new(&Inputs::read(&Given::new([], &variable), &flags).unwrap())
}

fn computed(report: &Report) -> Vec<(&'static str, f64)> {
    report.numbers.iter().map(|number| (number.name, number.seconds)).collect()
}

fn outcomes(report: &Report) -> Vec<Outcome> {
    report.rules.iter().map(|rule| rule.outcome).collect()
}

/// Exercises the runbook's example: p99 30 s, check every 2 s, down after 2.
#[test]
fn the_runbooks_example() {
    let report = check(&[], &[("p99", "30"), ("inter", "2"), ("fall", "2")]);
    assert_eq!(
        computed(&report),
        [
            ("DRAIN_TIMEOUT", 36.0),
            ("LB_BUFFER", 9.0),
            ("terminationDrainDuration", 36.0),
            ("terminationGracePeriodSeconds", 75.0),
        ]
    );
    // Numbers were asked for, and the ones in use (120, 10) are no less than them.
    assert_eq!(report.exit(), Exit::Done);
}

/// Exercises the homelab's numbers of the runbook: a drain duration that was made longer is kept.
#[test]
fn a_longer_drain_duration_is_kept() {
    let report = check(
        &[("DRAIN_TIMEOUT", "120"), ("LB_BUFFER", "10")],
        &[("grace-period", "210"), ("drain-duration", "150")],
    );
    assert_eq!(
        computed(&report),
        [("terminationDrainDuration", 150.0), ("terminationGracePeriodSeconds", 180.0)]
    );
    assert_eq!(report.verdict, Outcome::Holds);
    assert_eq!(outcomes(&report)[2..], [Outcome::Unknown, Outcome::Unknown], "nobody told p99, inter, fall");
}

/// Exercises the timing rule at its edges: the grace period must be more, not as much.
#[test]
fn the_grace_period_must_be_more() {
    for (grace, duration, expected) in [
        ("130", "120", Outcome::Broken),
        ("130.001", "120", Outcome::Holds),
        ("150", "150", Outcome::Broken),
        ("151", "150", Outcome::Holds),
        ("131", "119", Outcome::Broken),
        ("30", "5", Outcome::Broken),
    ] {
        let report = check(&[], &[("grace-period", grace), ("drain-duration", duration)]);
        assert_eq!(report.verdict, expected, "{grace} {duration}");
    }
}

/// Exercises each rule's break so that its words name the numbers, their origins and the remedy.
#[test]
fn broken_rules_in_words() {
    let report = check(
        &[("DRAIN_TIMEOUT", "20")],
        &[("grace-period", "30"), ("drain-duration", "5"), ("p99", "30"), ("inter", "3"), ("fall", "3")],
    );
    assert_eq!((report.verdict, report.exit()), (Outcome::Broken, Exit::Broken));
    assert_eq!(outcomes(&report), [Outcome::Broken; 4]);
    let details: Vec<_> = report.rules.iter().map(|rule| rule.detail.as_str()).collect();
    assert_eq!(
        details,
        [
            "terminationGracePeriodSeconds 30 s (--grace-period), not more than DRAIN_TIMEOUT 20 s (environment \
             DRAIN_TIMEOUT) + LB_BUFFER 10 s (default) = 30 s: the kubelet kills the pod before the drain has \
             ended; set more than 30 s",
            "terminationDrainDuration 5 s (--drain-duration) < DRAIN_TIMEOUT 20 s (environment DRAIN_TIMEOUT): \
             Envoy ends before the drain does, with requests in flight; set terminationDrainDuration to 20 s or \
             more",
            "DRAIN_TIMEOUT 20 s (environment DRAIN_TIMEOUT) < 36 s, from p99 30 s (--p99): long requests are cut \
             at the timeout; set DRAIN_TIMEOUT to 36 s or more",
            "LB_BUFFER 10 s (default) < 14 s, from inter 3 s (--inter) and fall 3 (--fall): the pod ends before \
             the LB has turned away from it; set LB_BUFFER to 14 s or more",
        ]
    );
}

/// Exercises what was not given: not known is neither kept nor broken, unless the rest breaks it already.
#[test]
fn a_missing_number_is_unknown() {
    assert_eq!(check(&[], &[]).exit(), Exit::Unknown);
    let known_enough = check(&[], &[("grace-period", "60")]);
    assert_eq!(outcomes(&known_enough)[0], Outcome::Broken);
    let report = check(&[], &[("grace-period", "300")]);
    assert_eq!((report.verdict, report.exit()), (Outcome::Unknown, Exit::Unknown));
    assert!(report.rules[0].detail.contains("give --drain-duration"), "{}", report.rules[0].detail);
}

/// Exercises wrong flags so that each error names flag, value, cause and remedy.
#[test]
fn wrong_flags() {
    let read = |flags: Flags| Inputs::read(&Given::new([], &|_: &str| None), &flags).unwrap_err().to_string();
    let text = |value: &str| Some(value.to_owned());
    assert_eq!(
        read(Flags { p99: text("fast"), ..Flags::default() }),
        r#"--p99="fast" is not a number of seconds: write seconds, such as 30 or 0.5, or a number with ms, s, m or h"#
    );
    assert_eq!(
        read(Flags { inter: text("0"), ..Flags::default() }),
        r#"--inter="0" is zero: leave it out if it is not known"#
    );
    assert_eq!(
        read(Flags { fall: text("2.5"), ..Flags::default() }),
        r#"--fall="2.5" is no count of failed checks: write a whole number from 1, as in HAProxy's `fall`"#
    );
}

/// Exercises the JSON so that scripts find numbers, origins, rules and verdict.
#[test]
fn json() {
    let report = check(&[], &[("p99", "30"), ("grace-period", "40")]);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["verdict"], "broken");
    assert_eq!(json["numbers"][0]["name"], "DRAIN_TIMEOUT");
    assert_eq!(json["numbers"][0]["seconds"], 36.0);
    assert_eq!(json["numbers"][0]["from"][0]["source"], "--p99");
    assert_eq!(json["rules"][0]["outcome"], "broken");
}

proptest! {
    /// Exercises any p99 in whole milliseconds against arithmetic in whole numbers, so that no rounding adds
    /// or loses a second.
    #[test]
    fn the_ceiling_is_exact(millis in 1..=3_600_000_u64) {
        let p99 = seconds::parse(&format!("{}.{:03}", millis / 1000, millis % 1000)).unwrap();
        let timeout = numbers::drain_timeout(p99).as_secs();
        prop_assert!(timeout * 10_000 >= millis * 12);
        prop_assert!((timeout - 1) * 10_000 < millis * 12);
    }

    /// Exercises any numbers so that a pod set as computed keeps every rule.
    #[test]
    fn computed_numbers_keep_the_rules(p99 in 1..2000_u64, inter in 1..20_u64, fall in 1..10_u32) {
        let (p99, inter, fall) = (p99.to_string(), inter.to_string(), fall.to_string());
        let asked = [("p99", p99.as_str()), ("inter", inter.as_str()), ("fall", fall.as_str())];
        let first = check(&[], &asked);
        let value = |name: &str| first.numbers.iter().find(|number| number.name == name).unwrap().seconds.to_string();
        let (timeout, buffer) = (value("DRAIN_TIMEOUT"), value("LB_BUFFER"));
        let (duration, grace) = (value("terminationDrainDuration"), value("terminationGracePeriodSeconds"));
        let report = check(
            &[("DRAIN_TIMEOUT", &timeout), ("LB_BUFFER", &buffer)],
            &[&asked[..], &[("drain-duration", &duration), ("grace-period", &grace)]].concat(),
        );
        prop_assert_eq!(outcomes(&report), [Outcome::Holds; 4], "{}", report);
    }

    /// Exercises any numbers with any of them left out, so that want of a number never makes a rule kept.
    #[test]
    fn less_knowledge_never_holds_more(grace in 1..400_u64, duration in 1..400_u64, keep in 0..4_u8) {
        let (grace, duration) = (grace.to_string(), duration.to_string());
        let all = [("grace-period", grace.as_str()), ("drain-duration", duration.as_str())];
        let kept: Vec<_> = all.iter().enumerate().filter(|(bit, _)| keep & (1 << bit) != 0).map(|(_, flag)| *flag).collect();
        let (full, part) = (check(&[], &all), check(&[], &kept));
        for (full, part) in outcomes(&full).into_iter().zip(outcomes(&part)) {
            prop_assert!(part == full || part == Outcome::Unknown, "{full:?} {part:?}");
        }
    }
}
