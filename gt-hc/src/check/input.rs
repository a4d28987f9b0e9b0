//! The numbers that were given, each with its origin.

use std::time::Duration;

use serde::Serialize;

use crate::{
    seconds,
    settings::{self, Given, Name, SettingError},
};

/// One number and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub name: &'static str,
    pub value: Duration,
    pub source: String,
}

/// Everything a check can use. What was not given is absent, and no rule takes it for zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inputs {
    pub drain_timeout: Input,
    pub lb_buffer: Input,
    /// `terminationGracePeriodSeconds` of the pod.
    pub grace_period: Option<Input>,
    /// `terminationDrainDuration` of Istio's ProxyConfig.
    pub drain_duration: Option<Input>,
    /// The 99th percentile of the time a request takes.
    pub p99: Option<Input>,
    /// The time between two checks of the LB.
    pub inter: Option<Input>,
    /// Failed checks until the LB takes the pod for DOWN.
    pub fall: Option<u32>,
}

/// The flags of `check`, as they were written.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub grace_period: Option<String>,
    pub drain_duration: Option<String>,
    pub p99: Option<String>,
    pub inter: Option<String>,
    pub fall: Option<String>,
}

impl Inputs {
    /// Reads settings and flags; the first that is wrong is the error.
    pub fn read(given: &Given<'_>, flags: &Flags) -> Result<Self, SettingError> {
        let setting = |name: Name, value: Duration| -> Result<Input, SettingError> {
            Ok(Input { name: name.variable(), value, source: given.value(name)?.1.words() })
        };
        Ok(Self {
            drain_timeout: setting(Name::DrainTimeout, settings::drain_timeout(given)?)?,
            lb_buffer: setting(Name::LbBuffer, settings::lb_buffer(given)?)?,
            grace_period: time(
                "terminationGracePeriodSeconds",
                "--grace-period",
                flags.grace_period.as_deref(),
            )?,
            drain_duration: time(
                "terminationDrainDuration",
                "--drain-duration",
                flags.drain_duration.as_deref(),
            )?,
            p99: positive(time("p99", "--p99", flags.p99.as_deref())?, "--p99", flags.p99.as_deref())?,
            inter: positive(
                time("inter", "--inter", flags.inter.as_deref())?,
                "--inter",
                flags.inter.as_deref(),
            )?,
            fall: fall(flags.fall.as_deref())?,
        })
    }
}

fn time(name: &'static str, flag: &'static str, text: Option<&str>) -> Result<Option<Input>, SettingError> {
    text.map(|text| match seconds::parse(text) {
        Ok(value) => Ok(Input { name, value, source: flag.to_owned() }),
        Err(cause) => {
            Err(wrong(flag, text, cause, "write seconds, such as 30 or 0.5, or a number with ms, s, m or h"))
        }
    })
    .transpose()
}

/// Nobody measures a zero here: it stands for a number that is not known.
fn positive(
    input: Option<Input>,
    flag: &'static str,
    text: Option<&str>,
) -> Result<Option<Input>, SettingError> {
    match input {
        Some(input) if input.value.is_zero() => {
            Err(wrong(flag, text.unwrap_or_default(), "is zero", "leave it out if it is not known"))
        }
        other => Ok(other),
    }
}

fn fall(text: Option<&str>) -> Result<Option<u32>, SettingError> {
    text.map(|text| match text.trim().parse() {
        Ok(fall @ 1..=1000) => Ok(fall),
        _ => Err(wrong(
            "--fall",
            text,
            "is no count of failed checks",
            "write a whole number from 1, as in HAProxy's `fall`",
        )),
    })
    .transpose()
}

fn wrong(flag: &'static str, text: &str, cause: &str, remedy: &str) -> SettingError {
    SettingError { name: flag, value: text.to_owned(), cause: cause.to_owned(), remedy: remedy.to_owned() }
}

/// A part of a formula, as the report shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    pub name: String,
    /// Seconds; a count for `fall`.
    pub value: f64,
    /// The flag, variable or number it comes from.
    pub source: String,
}

impl From<&Input> for Part {
    fn from(input: &Input) -> Self {
        Self { name: input.name.to_owned(), value: input.value.as_secs_f64(), source: input.source.clone() }
    }
}
