//! Numbers and rules as text or JSON, and the exit code.

use std::fmt;

use serde::Serialize;

use super::{Inputs, Number, Outcome, Rule, input::Part, numbers, rules};
use crate::exit::Exit;

/// All of a check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub numbers: Vec<Number>,
    pub rules: Vec<Rule>,
    pub verdict: Outcome,
}

impl Report {
    /// Computes and judges.
    #[must_use]
    pub fn new(inputs: &Inputs) -> Self {
        let rules = rules(inputs);
        // Rules about the LB and the requests are judged when their numbers are given; whoever computes
        // numbers for a pod that does not exist yet has no grace period to be judged.
        let computes_only = inputs.grace_period.is_none()
            && inputs.drain_duration.is_none()
            && (inputs.p99.is_some() || inputs.inter.is_some() && inputs.fall.is_some());
        let verdict = if rules.iter().any(|rule| rule.outcome == Outcome::Broken) {
            Outcome::Broken
        } else if !computes_only && rules.iter().any(|rule| rule.outcome == Outcome::Unknown && rule.always) {
            Outcome::Unknown
        } else {
            Outcome::Holds
        };
        Self { numbers: numbers(inputs), rules, verdict }
    }

    /// How the process ends.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self.verdict {
            Outcome::Holds => Exit::Done,
            Outcome::Broken => Exit::Broken,
            Outcome::Unknown => Exit::Unknown,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the runbook's numbers")?;
        for Number { name, seconds, formula, from, .. } in &self.numbers {
            let from: Vec<_> = from.iter().map(part).collect();
            writeln!(f, "  {name:<29} {seconds:>6} s   {formula}; {}", from.join(", "))?;
        }
        writeln!(f, "the numbers in use")?;
        for Rule { rule, outcome, detail, .. } in &self.rules {
            writeln!(f, "  {:<8} {rule}\n           {detail}", word(*outcome))?;
        }
        write!(f, "verdict   {}", word(self.verdict))
    }
}

fn part(Part { name, value, source }: &Part) -> String {
    format!("{name} {value} ({source})")
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Holds => "holds",
        Outcome::Broken => "BROKEN",
        Outcome::Unknown => "unknown",
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
