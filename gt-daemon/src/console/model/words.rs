//! Facts in words, for a line of the console. Pure.

use crate::{
    api::message::Word,
    drain::{
        fact::{End, Fact, Hc, Serving, Source},
        record::Summary,
    },
};

/// What is not known, on the screen.
pub const UNKNOWN: &str = "?";

/// A state of the sidecar.
#[must_use]
pub fn hc(state: Option<Hc>) -> &'static str {
    state.map_or(UNKNOWN, Hc::word)
}

/// What the LB does with the pod.
#[must_use]
pub fn serving(serving: Option<Serving>) -> &'static str {
    match serving {
        Some(Serving::Up) => "UP",
        Some(Serving::NoNew) => "NO NEW",
        Some(Serving::Down) => "DOWN",
        None => UNKNOWN,
    }
}

/// A number, or that it is not known.
#[must_use]
pub fn number<T: ToString>(number: Option<T>) -> String {
    number.map_or_else(|| UNKNOWN.to_owned(), |number| number.to_string())
}

/// A length of time in seconds; negative ones are real.
#[must_use]
pub fn seconds(us: i64) -> String {
    let sign = if us < 0 { "-" } else { "" };
    let us = us.unsigned_abs();
    let whole = us / 1_000_000;
    match whole {
        0..10 => format!("{sign}{whole}.{:03} s", us % 1_000_000 / 1_000),
        10..120 => format!("{sign}{whole}.{} s", us % 1_000_000 / 100_000),
        120..7_200 => format!("{sign}{}m{:02}s", whole / 60, whole % 60),
        _ => format!("{sign}{}h{:02}m", whole / 3_600, whole % 3_600 / 60),
    }
}

/// One fact, by the word on it.
#[must_use]
pub fn fact(fact: &Fact, word: Word) -> String {
    match fact {
        Fact::HcState { from, to, lb_told } => {
            let told = lb_told.map_or(String::new(), |code| format!(", the LB is told {code}"));
            format!("{} -> {}{told}", hc(*from), hc(*to))
        }
        Fact::LbStatus { server, status, serving: word } => {
            let status = status.as_deref().unwrap_or("could not be asked");
            format!("{server} {status}, for the pod: {}", serving(*word))
        }
        Fact::HaproxyBackendDown { server, predicted: true, .. } => {
            format!("{server} is DOWN by now, as computed (nobody saw it)")
        }
        Fact::HaproxyBackendDown { server, last_up, .. } => match last_up {
            Some(up) => format!("{server} is DOWN, seen up last at {}", clock(*up)),
            None => format!("{server} is DOWN, at its own word"),
        },
        Fact::PodDeleted { grace_seconds } => {
            format!("deletion was asked for, grace period {grace_seconds} s")
        }
        Fact::EnvoyDrainListeners => "the proxy began to drain its listeners".to_owned(),
        Fact::EnvoyActiveCount { downstream, upstream } => {
            format!("in flight {} down, {} up", number(*downstream), number(*upstream))
        }
        Fact::Connections { active, closing } => format!("{active} of users open, {closing} closing"),
        Fact::TcpTeardown(end) => teardown(end, word),
        Fact::TcpRst { direction, in_flight, .. } => {
            let way = direction.word();
            format!("{way}{}", if *in_flight { ", a request was in flight" } else { "" })
        }
        Fact::PodGone => "gone from its source".to_owned(),
        Fact::Ended => "its last connection of a user is closed".to_owned(),
        Fact::Gap { source, length_us, why } => {
            let during = if *length_us > 0 { format!(" for {}", seconds(*length_us)) } else { String::new() };
            format!("{} not seen{during}: {why}", source_word(*source))
        }
    }
}

fn teardown(end: &End, word: Word) -> String {
    let mut text = end.how.clone();
    if end.count > 1 {
        text.push_str(&format!(" x{}", end.count));
    }
    text.push_str(match (word, &end.evidence, end.sure) {
        (Word::Seen, ..) => " not judged yet",
        (_, Some(_), true) => "",
        (_, _, false) => " may be a cut",
        (_, None, true) => " no cut",
    });
    if word != Word::Seen && (end.evidence.is_some() || !end.sure) {
        text.push_str(&format!(" cause={}", end.cause));
    }
    for (name, word) in [("evidence", &end.evidence), ("phase", &end.phase)] {
        text.extend(word.iter().map(|word| format!(" {name}={word}")));
    }
    for word in [&end.protocol, &end.remote].into_iter().flatten() {
        text.push(' ');
        text.push_str(word);
    }
    text
}

/// What a verdict is, in a line.
#[must_use]
pub fn verdict(summary: &Summary) -> String {
    let reason = summary.reasons.first().map_or("", String::as_str);
    format!("{}: {reason}", summary.verdict.word().to_uppercase())
}

fn source_word(source: Source) -> &'static str {
    match source {
        Source::Kernel => "some ends of connections",
        Source::Hc => "the health sidecar",
        Source::Envoy => "the proxy",
        Source::Pods => "the pod",
        Source::Lb => "the load balancer",
        Source::Client => "why clients' requests failed",
        Source::Record => "some facts",
    }
}

/// The time of day of an instant, UTC, with microseconds.
#[must_use]
pub fn clock(us: i64) -> String {
    let seconds = us.div_euclid(1_000_000).rem_euclid(86_400);
    let micros = us.rem_euclid(1_000_000);
    format!("{:02}:{:02}:{:02}.{micros:06}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises lengths around each change of form, and those that go backwards.
    #[test]
    fn lengths() {
        let told = [0, 386_100, -1_500, 12_345_678, 119_999_999, 120_000_000, 7_199_000_000, 90_000_000_000];
        let words = ["0.000 s", "0.386 s", "-0.001 s", "12.3 s", "119.9 s", "2m00s", "119m59s", "25h00m"];
        assert_eq!(told.map(seconds), words);
    }

    /// Exercises instants before 1970 and at the ends of time, so that each has a time of day.
    #[test]
    fn times_of_day() {
        assert_eq!(clock(1_796_059_267_114_177), "17:21:07.114177");
        assert_eq!(clock(-1), "23:59:59.999999");
        assert_eq!([i64::MIN, i64::MAX].map(|us| clock(us).len()), [15, 15]);
    }
}
