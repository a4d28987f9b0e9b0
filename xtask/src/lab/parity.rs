//! gt's RSTs of a pod against tcpdump's on its device, packet for packet. Pure.

use std::{collections::BTreeMap, fmt::Write as _};

use super::record::Pod;
use crate::stage::{counts::Kind, resets::Reset};

/// In what they differ, with both records. Empty where each RST that gt can count is counted once, in its direction, and with the
/// class of its port or as `unknown` (those of TIME_WAIT sockets, which nobody knows any more).
pub(super) fn disagreements(pod: &Pod) -> Vec<String> {
    let mut found = Vec::new();
    for direction in ["received", "sent"] {
        let (gt, wire) = (of_gt(pod, direction), of_wire(pod, direction));
        let sum = |counts: &BTreeMap<&str, u64>| counts.values().sum::<u64>();
        let beyond = wire.keys().chain(gt.keys()).find(|class| {
            let count = |counts: &BTreeMap<&str, u64>| counts.get(*class).copied().unwrap_or_default();
            **class != "unknown" && count(&gt) > count(&wire)
        });
        if sum(&gt) != sum(&wire) || beyond.is_some() {
            found.push(format!(
                "RSTs {direction} that gt counted {gt:?}, and those on the wire {wire:?}{}",
                both(pod, direction)
            ));
        }
    }
    found
}

/// What gt counted, by class.
fn of_gt(pod: &Pod, direction: &str) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for (kind, count) in pod.gt.rsts.iter().filter(|(kind, _)| kind.label("direction") == direction) {
        *counts.entry(class(kind)).or_default() += whole(*count);
    }
    counts
}

/// Another class than these is none that the device could have shown.
fn class(kind: &Kind) -> &'static str {
    match kind.label("class") {
        "data" => "data",
        "health" => "health",
        "unknown" => "unknown",
        _ => "of no port that is captured",
    }
}

/// What gt can count of the wire's, by class.
fn of_wire(pod: &Pod, direction: &str) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for ((class, kind), lines) in &pod.resets {
        if kind.is_countable() && (*kind == Reset::Sent) == (direction == "sent") {
            *counts.entry(*class).or_default() += lines.len() as u64;
        }
    }
    counts
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a counter's growth in a round")]
fn whole(count: f64) -> u64 {
    count.max(0.0).round() as u64
}

/// Both records, a line an entry.
fn both(pod: &Pod, direction: &str) -> String {
    // Writing to a String cannot fail.
    let mut text = String::new();
    for (kind, count) in pod.gt.rsts.iter().filter(|(kind, _)| kind.label("direction") == direction) {
        let _infallible = write!(text, "\n      gt: {count} ({kind})");
    }
    for ((class, kind), lines) in &pod.resets {
        if (*kind == Reset::Sent) == (direction == "sent") {
            for line in lines {
                let _infallible = write!(text, "\n      tcpdump: {class}, {kind}: {line}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::judge::tests::good;

    /// Exercises each difference between the two so that none is passed over, and what gt cannot count is none.
    #[test]
    fn each_rst_in_its_direction_and_class() {
        let pod = good().pods.remove(0);
        assert_eq!(disagreements(&pod), Vec::<String>::new());
        let with = |class, kind| {
            let mut pod = pod.clone();
            pod.resets.insert((class, kind), vec!["a line".to_owned()]);
            disagreements(&pod)
        };
        for kind in [Reset::ReceivedInTimeWait, Reset::ReceivedWithoutSocket, Reset::ReceivedInHandshake] {
            assert_eq!(with("data", kind), Vec::<String>::new(), "{kind}");
        }
        for (class, kind) in [("data", Reset::Sent), ("health", Reset::Sent), ("health", Reset::Received)] {
            let told = with(class, kind);
            assert_eq!(told.len(), 1, "{class} {kind}");
            assert!(told[0].contains("a line"), "{told:?}");
        }
        // The same sum in another class.
        let mut moved = pod.clone();
        let lines = moved.resets.remove(&("data", Reset::Received)).unwrap();
        moved.resets.insert(("health", Reset::Received), lines);
        assert_eq!(disagreements(&moved).len(), 1);
        // A TIME_WAIT socket that answers is of no class for gt.
        let mut answered = pod.clone();
        answered.resets.insert(("data", Reset::Sent), vec!["a line".to_owned()]);
        answered.gt.rsts.push((Kind::new(&[("class", "unknown"), ("direction", "sent")]), 1.0));
        assert_eq!(disagreements(&answered), Vec::<String>::new());
    }
}
