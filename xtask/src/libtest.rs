//! Reads what a test binary prints (libtest, or libtest-mimic in its place).
//!
//! A test that finds it cannot run here says `skipped: NAME: REASON` and ends as `ok`; for gt that is
//! neither passed nor failed.

use std::collections::{BTreeMap, BTreeSet};

/// What became of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    Skipped(String),
}

/// Sums of the `test result:` lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

/// Characters kept of a failed test's message.
const SAID: usize = 600;

/// Everything a test binary said.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// By name; of several binaries with equal names the last.
    pub tests: BTreeMap<String, Outcome>,
    /// What the binaries themselves counted; without a `test result:` line there is nothing.
    pub counted: Option<Counts>,
    /// What failed tests said, by name; cut short.
    pub said: BTreeMap<String, String>,
    skips: BTreeMap<String, String>,
    /// The failed test whose message is being read.
    failure: Option<String>,
    /// A test whose line has begun and whose outcome has not come yet.
    running: Option<String>,
}

/// The tests that ran in none of several reports: a hole that no report shows by itself.
#[must_use]
pub fn ran_nowhere<'a>(reports: impl IntoIterator<Item = &'a Report>) -> BTreeSet<&'a str> {
    let mut ran: BTreeMap<&str, bool> = BTreeMap::new();
    for (name, outcome) in reports.into_iter().flat_map(|report| &report.tests) {
        *ran.entry(name).or_default() |= !matches!(outcome, Outcome::Skipped(_));
    }
    ran.into_iter().filter_map(|(name, ran)| (!ran).then_some(name)).collect()
}

impl Report {
    /// Takes in the next line.
    pub fn line(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" ----")) {
            self.failure = Some(name.trim_end_matches(" stdout").to_owned());
            return;
        }
        if let Some((_, skip)) = line.split_once("skipped: ")
            && let Some((name, reason)) = skip.split_once(": ")
        {
            self.skips.insert(name.to_owned(), reason.to_owned());
        }
        if let Some(result) = line.strip_prefix("test result: ") {
            self.failure = None;
            self.result(result);
        } else if line == "failures:" {
            self.failure = None;
        } else if let Some(name) = &self.failure {
            let said = self.said.entry(name.clone()).or_default();
            if !line.is_empty() && said.chars().count() < SAID {
                *said = format!("{said} {line}").trim_start().chars().take(SAID).collect();
            }
        } else if let Some((name, rest)) =
            line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "))
        {
            self.begin(name.trim_end());
            self.outcome(rest);
        } else if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ...")) {
            self.begin(name.trim_end());
        } else {
            // What a test prints comes between its name and its outcome.
            self.outcome(line);
        }
    }

    /// Ends the report: a test without an outcome took its binary down, and is failed.
    #[must_use]
    pub fn finish(mut self) -> Self {
        if let Some(name) = self.running.take() {
            self.tests.insert(name, Outcome::Failed);
        }
        for (name, reason) in &self.skips {
            if let Some(outcome @ Outcome::Passed) = self.tests.get_mut(name) {
                *outcome = Outcome::Skipped(reason.clone());
            } else if let Some(Outcome::Skipped(known)) = self.tests.get_mut(name) {
                known.clone_from(reason);
            }
        }
        self
    }

    /// The names of the failed tests.
    pub fn failed(&self) -> impl Iterator<Item = &str> {
        self.tests.iter().filter(|(_, outcome)| **outcome == Outcome::Failed).map(|(name, _)| name.as_str())
    }

    /// The failed tests with what they said, a line each.
    #[must_use]
    pub fn failures(&self, environment: &str) -> String {
        let said = |name| self.said.get(name).map_or("it ended without a word", String::as_str);
        self.failed().map(|name| format!("failed in {environment}: {name}: {}\n", said(name))).collect()
    }

    fn begin(&mut self, name: &str) {
        if let Some(before) = self.running.replace(name.to_owned()) {
            self.tests.insert(before, Outcome::Failed);
        }
    }

    fn outcome(&mut self, text: &str) {
        let outcome = match text.split([' ', ',', '\t']).next() {
            Some("ok") => Outcome::Passed,
            Some("FAILED" | "failed") => Outcome::Failed,
            Some("ignored") => {
                let reason = text.split_once(", ").map_or("ignored", |(_, reason)| reason);
                Outcome::Skipped(reason.to_owned())
            }
            _ => return,
        };
        if let Some(name) = self.running.take() {
            self.tests.insert(name, outcome);
        }
    }

    fn result(&mut self, result: &str) {
        let counted = self.counted.get_or_insert_default();
        let (_, numbers) = result.split_once(". ").unwrap_or_default();
        for part in numbers.split("; ") {
            let Some((number, what)) = part.split_once(' ') else { continue };
            let Ok(number) = number.parse::<usize>() else { continue };
            match what {
                "passed" => counted.passed += number,
                "failed" => counted.failed += number,
                "ignored" => counted.skipped += number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Report {
        let mut report = Report::default();
        text.lines().for_each(|line| report.line(line));
        report.finish()
    }

    /// Exercises plain, ignored and failed lines so that each outcome is told apart.
    #[test]
    fn outcomes_and_counts_of_a_plain_run() {
        let report = read(
            "running 3 tests\ntest a ... ok\ntest b::c      ... FAILED\ntest d ... ignored, no root\n\n\
             test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s\n",
        );
        assert_eq!(report.tests["a"], Outcome::Passed);
        assert_eq!(report.tests["b::c"], Outcome::Failed);
        assert_eq!(report.tests["d"], Outcome::Skipped("no root".to_owned()));
        assert_eq!(report.counted, Some(Counts { passed: 1, failed: 1, skipped: 1 }));
        assert_eq!(report.failed().collect::<Vec<_>>(), ["b::c"]);
    }

    /// Exercises the list of failures at the end, so that each test's message is kept, and only its own.
    #[test]
    fn messages_of_failed_tests() {
        let report = read(
            "test a ... FAILED\ntest b ... FAILED\n\nfailures:\n\n---- a ----\nleft: 1\n right: 2\n\n\
             ---- b stdout ----\nno\n\nfailures:\n    a\n    b\n\ntest result: FAILED. 0 passed; 2 failed\n",
        );
        assert_eq!(report.said["a"], "left: 1  right: 2");
        assert_eq!(report.said["b"], "no");
        assert_eq!(report.failed().collect::<Vec<_>>(), ["a", "b"]);
    }

    /// Exercises a skip inside a running test so that its `ok` is not counted as a pass.
    #[test]
    fn a_skip_is_not_a_pass() {
        let report =
            read("test a ... skipped: a: no kprobes here: CONFIG_KPROBES is off\nok\ntest b ... ok\n");
        assert_eq!(report.tests["a"], Outcome::Skipped("no kprobes here: CONFIG_KPROBES is off".to_owned()));
        assert_eq!(report.tests["b"], Outcome::Passed);
    }

    /// Exercises a binary that dies so that its running test is failed and no sum is invented.
    #[test]
    fn a_test_without_an_outcome_is_failed() {
        let report = read("test a ... ok\ntest b ... some output\n");
        assert_eq!(report.tests["b"], Outcome::Failed);
        assert_eq!(report.counted, None);
    }

    /// Exercises several binaries in one output so that their sums are added.
    #[test]
    fn sums_of_several_binaries_are_added() {
        let line = "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(read(&line.repeat(2)).counted, Some(Counts { passed: 4, failed: 0, skipped: 2 }));
    }
}
