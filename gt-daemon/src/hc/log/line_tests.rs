use proptest::prelude::*;

use super::*;
use crate::hc::log::stamp;

fn parse(text: &str) -> Line {
    Line::parse(text.as_bytes(), &Names::default())
}

/// The instant (from the line alone), from and to of a line.
fn told(text: &str) -> Option<(Option<i64>, HcState, HcState)> {
    match parse(text) {
        Line::Transition(line) => Some((stamp::instant(line.stamp, None), line.from.state(), line.to)),
        Line::Unreadable | Line::Other => None,
    }
}

/// Exercises gt-hc's own line, with every field.
#[test]
fn a_line_of_gt_hc() {
    let line = parse(
        "ts=2026-11-30T07:16:46.981444Z event=transition from=DRAINING to=FAULT reason=drain_timeout active=2",
    );
    let Line::Transition(line) = line else { panic!("{line:?}") };
    assert_eq!((line.from, line.to), (States::only(HcState::Draining), HcState::Fault));
    assert_eq!((line.reason.as_deref(), line.active), (Some("drain_timeout"), Some(2)));
    assert_eq!(line.stamp.and_then(Stamp::utc_us), Some(1_796_023_006_981_444));
}

/// Exercises lines that are about transitions without being one.
#[test]
fn other_lines() {
    for other in [
        "ts=2026-11-30T07:16:46Z event=health_check path=/transition code=200",
        "no transition yet",
        "event=transitions from=OPEN to=CLOSED",
        "from=OPEN to=CLOSED",
        "reason=transition from=OPEN to=CLOSED",
        "event=health_check path=\"/ event=transition from=OPEN to=CLOSED\" code=200",
        "event=health_check path=/ event=transition from=OPEN to=CLOSED",
        "event=refused msg=\"event=transition from=OPEN to=CLOSED\"",
        r#"{"event":"health_check","path":"event=transition from=OPEN to=CLOSED"}"#,
        r#"{"path":"event=transition from=OPEN to=CLOSED"}"#,
        "",
    ] {
        assert_eq!(parse(other), Line::Other, "{other}");
    }
}

/// Exercises lines that are cut off or use unknown words, so that no state is guessed.
#[test]
fn unreadable_lines() {
    for unreadable in [
        "event=transition from=OPEN to=DRAIN",
        "event=transition from=OPEN to=",
        "event=transition from=OPEN",
        "event=transition",
        r#"{"event":"transition","from":"OPEN"}"#,
        "event=transition from=OPEN to=\"DRAINI",
    ] {
        assert_eq!(parse(unreadable), Line::Unreadable, "{unreadable}");
    }
}

proptest! {
    /// Exercises any order of fields, so that order never matters.
    #[test]
    fn any_order(order in Just(vec![0_usize, 1, 2, 3, 4]).prop_shuffle()) {
        let fields = ["event=transition", "from=DRAINING", "to=CLOSING", "level=info", "reason=\"a to=OPEN b\""];
        let line = order.iter().map(|index| fields[*index]).collect::<Vec<_>>().join(" ");
        prop_assert_eq!(told(&line), Some((None, HcState::Draining, HcState::Closing)));
    }

    /// Exercises any bytes around the word, so that none panics and none becomes a transition by chance.
    #[test]
    fn any_bytes(before in prop::collection::vec(any::<u8>(), 0..40), after in prop::collection::vec(any::<u8>(), 0..40)) {
        let line = [&before[..], b"transition", &after[..]].concat();
        prop_assert!(!matches!(Line::parse(&line, &Names::default()), Line::Transition(_)));
    }

    /// Exercises a line cut at any place, so that a cut one is never another transition.
    #[test]
    fn cut_lines(at in 0_usize..90) {
        let whole = "ts=2026-11-30T07:16:46.981444Z event=transition from=OPEN to=CLOSING reason=active_zero";
        let cut = whole.get(..at).unwrap_or(whole);
        if let Some((_, from, to)) = told(cut) {
            prop_assert_eq!((from, to), (HcState::Open, HcState::Closing));
        }
    }
}
