//! `gt-hc check`: the runbook's numbers, and whether the ones in use keep its rules.
//!
//! Owns: the arithmetic. Refuses: to call a rule kept when a number it needs was not given.

mod input;
mod numbers;
mod report;
mod rules;

pub use input::{Flags, Input, Inputs, Part};
pub use numbers::{Number, numbers};
pub use report::Report;
pub use rules::{Outcome, Rule, rules};
