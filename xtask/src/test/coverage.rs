//! Which kernel test ran where. A test may be skipped on a kernel that lacks what it needs, but one
//! that ran nowhere says nothing, and that is a failure.

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::{Result, bail};

use super::overview::Ended;
use crate::libtest::{Counts, Outcome, Report, ran_nowhere};

/// The reports of all environments, in the order they came.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    environments: Vec<(String, Report)>,
}

impl Coverage {
    /// Takes in what the kernel tests said in one environment.
    pub(super) fn add(&mut self, environment: &str, report: Report) -> Ended {
        let mut counts = Counts::default();
        report.tests.values().for_each(|outcome| count(&mut counts, outcome));
        self.environments.push((environment.to_owned(), report));
        Ended::counted_elsewhere(counts)
    }

    /// Each test once: failed where it failed anywhere or ran nowhere, else passed.
    pub(super) fn judge(&self) -> Result<Ended> {
        let mut tests: BTreeMap<&str, Vec<&Outcome>> = BTreeMap::new();
        for (name, outcome) in self.environments.iter().flat_map(|(_, report)| &report.tests) {
            tests.entry(name).or_default().push(outcome);
        }
        if tests.is_empty() {
            bail!("no kernel test ran in any environment");
        }
        let nowhere = ran_nowhere(self.environments.iter().map(|(_, report)| report));
        let mut counts = Counts::default();
        for (name, outcomes) in tests {
            let failed = outcomes.contains(&&Outcome::Failed);
            if failed || nowhere.contains(name) {
                println!("{name}: {}", if failed { "failed" } else { "ran in no environment" });
                counts.failed += 1;
            } else {
                counts.passed += 1;
            }
        }
        Ok(Ended::counted(counts))
    }

    /// What failed and what it said, by environment: the last lines of a long run are often all that is kept.
    pub(super) fn failures(&self) -> String {
        self.environments.iter().map(|(environment, report)| report.failures(environment)).collect()
    }

    /// What ran and what was skipped, by environment.
    pub(super) fn lists(&self) -> String {
        let mut text = String::new();
        for (environment, Report { tests, .. }) in &self.environments {
            let ran: Vec<_> = tests
                .iter()
                .filter(|(_, outcome)| !matches!(outcome, Outcome::Skipped(_)))
                .map(|(name, _)| name.as_str())
                .collect();
            let _infallible =
                writeln!(text, "\nkernel tests in {environment}: ran {}: {}", ran.len(), ran.join(", "));
            for (name, outcome) in tests {
                if let Outcome::Skipped(reason) = outcome {
                    let _infallible = writeln!(text, "  left out: {name}: {reason}");
                }
            }
        }
        text
    }
}

fn count(counts: &mut Counts, outcome: &Outcome) {
    match outcome {
        Outcome::Passed => counts.passed += 1,
        Outcome::Failed => counts.failed += 1,
        Outcome::Skipped(_) => counts.skipped += 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(text: &str) -> Report {
        let mut report = Report::default();
        text.lines().for_each(|line| report.line(line));
        report.finish()
    }

    /// Exercises a test that is skipped everywhere so that a hole in the coverage is a failure.
    #[test]
    fn a_test_that_ran_nowhere_fails() {
        let mut coverage = Coverage::default();
        coverage.add(
            "host",
            report("test a ... ok\ntest b ... ignored, no kprobes\ntest c ... ignored, no kprobes\n"),
        );
        coverage.add("vm-6.1", report("test a ... ok\ntest b ... ok\ntest c ... ignored, no kprobes\n"));
        assert_eq!(coverage.judge().unwrap().to_string(), "2 ok, 1 bad, 0 left out");
        assert!(
            coverage.lists().contains("kernel tests in vm-6.1: ran 2: a, b\n  left out: c: no kprobes\n")
        );
    }

    /// Exercises a failure in one environment so that a pass elsewhere does not hide it.
    #[test]
    fn a_failure_anywhere_is_a_failure() {
        let mut coverage = Coverage::default();
        coverage.add("host", report("test a ... FAILED\n"));
        coverage.add("vm-6.1", report("test a ... ok\n"));
        assert_eq!(coverage.judge().unwrap().to_string(), "0 ok, 1 bad, 0 left out");
        assert_eq!(coverage.failures(), "failed in host: a: it ended without a word\n");
        assert!(Coverage::default().judge().is_err());
    }
}
