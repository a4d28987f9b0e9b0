//! What Envoy is asked for.
//!
//! Envoy walks all its stats for every question, on the thread that also takes its configuration. Measured on
//! Envoy 1.40 with 500 idle clusters, CPU time of that thread for one answer: 35 ms for the filter of the usual
//! `kubectl exec` poller, 5 ms with `usedonly`, 1.4 ms for `usedonly` gauges alone and 1.3 ms for `usedonly` counters; the rest
//! goes into histograms. With a quarter of a second in between, so that its caches are cold, twice that. Text, JSON and
//! Prometheus' form differ by a few hundredths of a millisecond, the regular expression by a tenth. So there is one
//! question for each kind, in the text form, and counters are asked for less often.

use std::fmt::Write as _;

use super::{
    form::Form,
    stat::{Kind, Stat},
};

/// Which kinds one question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kinds {
    Gauges,
    Counters,
    /// In Prometheus' form kinds cannot be told apart by the question.
    Both,
}

impl Kinds {
    pub(super) fn contains(self, kind: Kind) -> bool {
        match self {
            Self::Gauges => kind == Kind::Gauge,
            Self::Counters => kind == Kind::Counter,
            Self::Both => true,
        }
    }
}

/// One question: path and query, and what its answer is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) path: String,
    pub(super) form: Form,
    pub(super) kinds: Kinds,
    /// Whether stats that nobody has touched are left out.
    pub(super) used_only: bool,
}

/// The questions that together give `kinds`, in this order: gauges tell whether Envoy was restarted.
pub(super) fn questions(form: Form, counters: bool, used_only: bool) -> Vec<Question> {
    let question = |kinds| Question { path: path(form, kinds, used_only), form, kinds, used_only };
    match form {
        Form::Prometheus => vec![question(Kinds::Both)],
        Form::Text | Form::Json if counters => vec![question(Kinds::Gauges), question(Kinds::Counters)],
        Form::Text | Form::Json => vec![question(Kinds::Gauges)],
    }
}

/// Path and query of each GET of a look that has nothing to learn any more.
#[must_use]
pub fn paths(form: Form, counters: bool) -> Vec<String> {
    questions(form, counters, true).into_iter().map(|question| question.path).collect()
}

/// Parameters that a version of Envoy does not know are ignored by it; rows that come all the same are passed over.
fn path(form: Form, kinds: Kinds, used_only: bool) -> String {
    let mut path = match form {
        Form::Text => "/stats?",
        Form::Json => "/stats?format=json&",
        Form::Prometheus => "/stats/prometheus?",
    }
    .to_owned();
    path.push_str(match kinds {
        Kinds::Gauges => "type=Gauges&hidden=include&",
        Kinds::Counters => "type=Counters&",
        Kinds::Both => "",
    });
    path.push_str(if used_only { "usedonly&" } else { "" });
    path.push_str("filter=");
    encode(&filter(kinds), &mut path);
    path
}

/// A regular expression (RE2) for the last parts of the names: cheaper for Envoy than whole names.
fn filter(kinds: Kinds) -> String {
    let lasts: Vec<_> = Stat::ALL
        .into_iter()
        .map(Stat::describe)
        .filter(|(_, _, kind)| kinds.contains(*kind))
        .map(|(_, last, _)| last.replace('.', "\\."))
        .collect();
    format!("\\.({})$", lasts.join("|"))
}

/// Percent-encoding (RFC 3986).
fn encode(text: &str, into: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            into.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _infallible = write!(into, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises the questions, so that each stat is asked for once and nothing in a path needs more encoding.
    #[test]
    fn each_stat_is_asked_for_once() {
        for form in [Form::Text, Form::Json, Form::Prometheus] {
            let questions = questions(form, true, true);
            for stat in Stat::ALL {
                let last = stat.describe().1;
                let mut encoded = String::new();
                encode(&last.replace('.', "\\."), &mut encoded);
                let asking = questions
                    .iter()
                    .filter(|question| question.kinds.contains(stat.kind()))
                    .filter(|question| question.path.contains(&encoded))
                    .count();
                assert_eq!(asking, 1, "{form:?} {last}");
            }
            for question in questions {
                assert!(question.path.starts_with("/stats") && question.path.parse::<hyper::Uri>().is_ok());
                assert!(question.path.contains("usedonly"));
            }
        }
    }

    /// Exercises the cheap questions, so that counters and names that nobody needs now are not asked for.
    #[test]
    fn only_what_is_needed() {
        let gauges = questions(Form::Text, false, true);
        assert_eq!(gauges.iter().map(|question| question.kinds).collect::<Vec<_>>(), [Kinds::Gauges]);
        let learning = questions(Form::Text, true, false);
        assert!(learning.iter().all(|question| !question.path.contains("usedonly")));
    }
}
