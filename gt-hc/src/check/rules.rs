//! The rules that the numbers in use must keep.

use std::time::Duration;

use serde::Serialize;

use super::{
    input::{Input, Inputs},
    numbers,
};
use crate::seconds::show;

/// Whether a rule is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Holds,
    Broken,
    /// A number that the rule needs was not given.
    Unknown,
}

/// A rule, judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    pub rule: &'static str,
    pub outcome: Outcome,
    /// The numbers, with their origins; what breaks when the rule does; the remedy.
    pub detail: String,
    /// Whether the rule counts even when nobody gave its numbers.
    #[serde(skip)]
    pub(super) always: bool,
}

/// Judges all rules.
#[must_use]
pub fn rules(inputs: &Inputs) -> Vec<Rule> {
    vec![grace(inputs), envoy(inputs), long_requests(inputs), detection(inputs)]
}

fn grace(inputs: &Inputs) -> Rule {
    const RULE: &str =
        "terminationGracePeriodSeconds > max(DRAIN_TIMEOUT + LB_BUFFER, terminationDrainDuration)";
    let own = inputs.drain_timeout.value.saturating_add(inputs.lb_buffer.value);
    let own_words =
        format!("{} + {} = {} s", words(&inputs.drain_timeout), words(&inputs.lb_buffer), show(own));
    let Some(grace) = &inputs.grace_period else {
        return unknown(
            RULE,
            format!(
                "give --grace-period, the pod's terminationGracePeriodSeconds (Kubernetes uses 30 where nothing sets it); {own_words}"
            ),
            true,
        );
    };
    let broken = |by: &str, needed: Duration| {
        rule(
            RULE,
            Outcome::Broken,
            format!(
                "{}, not more than {by}: the kubelet kills the pod before the drain has ended; set more than {} s",
                words(grace),
                show(needed)
            ),
            true,
        )
    };
    match &inputs.drain_duration {
        _ if grace.value <= own => broken(
            &own_words,
            own.max(inputs.drain_duration.as_ref().map_or(Duration::ZERO, |input| input.value)),
        ),
        Some(duration) if grace.value <= duration.value => broken(&words(duration), duration.value),
        Some(duration) => rule(
            RULE,
            Outcome::Holds,
            format!("{} > {own_words}, and > {}", words(grace), words(duration)),
            true,
        ),
        None => unknown(RULE, format!("{} > {own_words}; {}", words(grace), GIVE_DURATION), true),
    }
}

const GIVE_DURATION: &str =
    "give --drain-duration, the gateway's terminationDrainDuration (Istio uses 5 s where nothing sets it)";

fn envoy(inputs: &Inputs) -> Rule {
    const RULE: &str = "terminationDrainDuration >= DRAIN_TIMEOUT";
    let Some(duration) = &inputs.drain_duration else {
        return unknown(RULE, GIVE_DURATION.to_owned(), true);
    };
    compare(
        RULE,
        duration,
        inputs.drain_timeout.value,
        &words(&inputs.drain_timeout),
        "Envoy ends before the drain does, with requests in flight",
        true,
    )
}

fn long_requests(inputs: &Inputs) -> Rule {
    const RULE: &str = "DRAIN_TIMEOUT >= ceil(p99 x 1.2)";
    let Some(p99) = &inputs.p99 else {
        return unknown(
            RULE,
            "give --p99, the time within which 99 of 100 long requests end".to_owned(),
            false,
        );
    };
    let least = numbers::drain_timeout(p99.value);
    compare(
        RULE,
        &inputs.drain_timeout,
        least,
        &format!("{} s, from {}", show(least), words(p99)),
        "long requests are cut at the timeout",
        false,
    )
}

fn detection(inputs: &Inputs) -> Rule {
    const RULE: &str = "LB_BUFFER >= inter x fall + 5";
    let (Some(inter), Some(fall)) = (&inputs.inter, inputs.fall) else {
        return unknown(RULE, "give --inter and --fall of the LB's health check".to_owned(), false);
    };
    let least = numbers::lb_buffer(inter.value, fall);
    compare(
        RULE,
        &inputs.lb_buffer,
        least,
        &format!("{} s, from {} and fall {fall} (--fall)", show(least), words(inter)),
        "the pod ends before the LB has turned away from it",
        false,
    )
}

/// Judges `left >= right`.
fn compare(
    rule_text: &'static str,
    left: &Input,
    right: Duration,
    right_words: &str,
    harm: &str,
    always: bool,
) -> Rule {
    if left.value >= right {
        rule(rule_text, Outcome::Holds, format!("{} >= {right_words}", words(left)), always)
    } else {
        let detail = format!(
            "{} < {right_words}: {harm}; set {} to {} s or more",
            words(left),
            left.name,
            show(right)
        );
        rule(rule_text, Outcome::Broken, detail, always)
    }
}

fn words(input: &Input) -> String {
    format!("{} {} s ({})", input.name, show(input.value), input.source)
}

fn unknown(text: &'static str, detail: String, always: bool) -> Rule {
    rule(text, Outcome::Unknown, detail, always)
}

fn rule(rule: &'static str, outcome: Outcome, detail: String, always: bool) -> Rule {
    Rule { rule, outcome, detail, always }
}
