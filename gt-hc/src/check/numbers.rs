//! The runbook's formulas, in whole nanoseconds: no rounding of floats decides a timeout.
//!
//! ```text
//! DRAIN_TIMEOUT                 = ceil(p99 x 1.2)
//! LB_BUFFER                     = inter x fall + 5 s
//! terminationDrainDuration     >= DRAIN_TIMEOUT
//! terminationGracePeriodSeconds = max(DRAIN_TIMEOUT + LB_BUFFER, terminationDrainDuration) + 30 s
//! ```

use std::time::Duration;

use serde::Serialize;

use super::input::{Inputs, Part};

/// What the LB gets beyond its own detection time.
pub(super) const LB_MARGIN: Duration = Duration::from_secs(5);

/// What the grace period has beyond the longest way to the end.
const GRACE_MARGIN: Duration = Duration::from_secs(30);

/// One computed number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Number {
    pub name: &'static str,
    pub seconds: f64,
    pub formula: &'static str,
    pub from: Vec<Part>,
    #[serde(skip)]
    pub(super) value: Duration,
}

/// `ceil(p99 x 1.2)`, in seconds.
#[must_use]
pub fn drain_timeout(p99: Duration) -> Duration {
    // Ten times 1.2, so that the product stays whole; a day in nanoseconds is far from the end of u128.
    let tenths = p99.as_nanos() * 12;
    Duration::from_secs(u64::try_from(tenths.div_ceil(10 * 1_000_000_000)).unwrap_or(u64::MAX))
}

/// `inter x fall + 5 s`.
#[must_use]
pub fn lb_buffer(inter: Duration, fall: u32) -> Duration {
    inter.saturating_mul(fall).saturating_add(LB_MARGIN)
}

/// Every number that follows from what was given. A number that lacks an input is absent; a later formula
/// takes the computed number if there is one, else the one in use.
#[must_use]
pub fn numbers(inputs: &Inputs) -> Vec<Number> {
    let timeout = inputs.p99.as_ref().map(|p99| {
        number("DRAIN_TIMEOUT", "ceil(p99 x 1.2)", drain_timeout(p99.value), vec![Part::from(p99)])
    });
    let buffer = inputs.inter.as_ref().zip(inputs.fall).map(|(inter, fall)| {
        let fall_part = Part { name: "fall".to_owned(), value: fall.into(), source: "--fall".to_owned() };
        number(
            "LB_BUFFER",
            "inter x fall + 5",
            lb_buffer(inter.value, fall),
            vec![Part::from(inter), fall_part],
        )
    });
    let (timeout_value, timeout_part) = best(timeout.as_ref(), &inputs.drain_timeout);
    let (buffer_value, buffer_part) = best(buffer.as_ref(), &inputs.lb_buffer);
    let mut duration_parts = vec![timeout_part.clone()];
    duration_parts.extend(inputs.drain_duration.as_ref().map(Part::from));
    let duration = number(
        "terminationDrainDuration",
        "max(DRAIN_TIMEOUT, terminationDrainDuration in use)",
        inputs.drain_duration.as_ref().map_or(timeout_value, |given| given.value.max(timeout_value)),
        duration_parts,
    );
    let longest = timeout_value.saturating_add(buffer_value).max(duration.value);
    let grace = number(
        "terminationGracePeriodSeconds",
        "max(DRAIN_TIMEOUT + LB_BUFFER, terminationDrainDuration) + 30",
        whole_seconds(longest.saturating_add(GRACE_MARGIN)),
        vec![timeout_part, buffer_part, computed(&duration)],
    );
    timeout.into_iter().chain(buffer).chain([duration, grace]).collect()
}

fn number(name: &'static str, formula: &'static str, value: Duration, from: Vec<Part>) -> Number {
    Number { name, seconds: value.as_secs_f64(), formula, from, value }
}

fn computed(number: &Number) -> Part {
    Part { name: number.name.to_owned(), value: number.seconds, source: "computed above".to_owned() }
}

fn best(number: Option<&Number>, in_use: &super::Input) -> (Duration, Part) {
    number.map_or_else(|| (in_use.value, Part::from(in_use)), |number| (number.value, computed(number)))
}

/// Kubernetes takes whole seconds.
fn whole_seconds(value: Duration) -> Duration {
    Duration::from_secs(value.as_secs() + u64::from(value.subsec_nanos() > 0))
}
