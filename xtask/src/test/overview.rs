//! The steps of a test run, and what is told about them at the end.

use std::{fmt, time::Instant};

use anyhow::Result;

use crate::libtest::Counts;

/// The error of a step that could not run for want of a build; such a step is skipped, since the build
/// has failed already.
pub(super) const NO_BUILD: &str = "the build failed";

/// How a step ended, when it ended without an error.
#[derive(Debug)]
pub(super) struct Ended {
    counts: Counts,
    /// `None` for a step whose tests are counted elsewhere.
    counted: bool,
    reason: String,
}

impl Ended {
    /// A step that passed as a whole.
    pub(super) fn ok() -> Self {
        Self { counts: Counts { passed: 1, ..Counts::default() }, counted: true, reason: String::new() }
    }

    /// A step that cannot run here.
    pub(super) fn skipped(reason: &str) -> Self {
        Self { counts: Counts { skipped: 1, ..Counts::default() }, counted: true, reason: reason.to_owned() }
    }

    /// A step of several tests.
    pub(super) fn counted(counts: Counts) -> Self {
        Self { counts, counted: true, reason: String::new() }
    }

    /// A step whose tests are summed up by a later step, so that none is counted twice.
    pub(super) fn counted_elsewhere(counts: Counts) -> Self {
        Self { counts, counted: false, reason: String::new() }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { passed, failed, skipped } = self.counts;
        match (passed, failed, skipped, self.reason.as_str()) {
            (_, _, _, reason) if !reason.is_empty() => f.write_str(reason),
            (1, 0, 0, _) if self.counted => Ok(()),
            _ => write!(f, "{passed} ok, {failed} bad, {skipped} left out"),
        }
    }
}

#[derive(Debug)]
struct Step {
    name: &'static str,
    result: &'static str,
    seconds: f32,
    detail: String,
}

/// All steps so far.
#[derive(Debug, Default)]
pub(super) struct Overview {
    steps: Vec<Step>,
    sum: Counts,
}

impl Overview {
    /// Runs a step; whatever its result, the next one can follow.
    pub(super) fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<Ended>) {
        println!("== {name}");
        let started = Instant::now();
        let ended = work();
        let seconds = started.elapsed().as_secs_f32();
        self.record(name, seconds, ended);
    }

    fn record(&mut self, name: &'static str, seconds: f32, ended: Result<Ended>) {
        let (result, detail) = match ended {
            Ok(ended) => {
                if ended.counted {
                    self.sum.passed += ended.counts.passed;
                    self.sum.failed += ended.counts.failed;
                    self.sum.skipped += ended.counts.skipped;
                }
                let result = match ended.counts {
                    Counts { failed: 1.., .. } => "failed",
                    Counts { passed: 0, skipped: 1.., .. } => "skipped",
                    _ => "ok",
                };
                (result, ended.to_string())
            }
            Err(error) if error.to_string() == NO_BUILD => {
                self.sum.skipped += 1;
                ("skipped", NO_BUILD.to_owned())
            }
            Err(error) => {
                println!("{name}: {error:#}");
                self.sum.failed += 1;
                // The rest was shown when it happened.
                ("failed", format!("{error:#}").lines().next().unwrap_or_default().to_owned())
            }
        };
        self.steps.push(Step { name, result, seconds, detail });
    }

    /// Whether any step or test failed.
    pub(super) fn failed(&self) -> bool {
        self.sum.failed > 0
    }
}

impl Overview {
    /// How each step ended.
    pub(super) fn table(&self) -> String {
        let mut text = format!("\n{:<24} {:<8} {:>7}\n", "step", "result", "seconds");
        for Step { name, result, seconds, detail } in &self.steps {
            let line = format!("{name:<24} {result:<8} {seconds:>7.1}  {detail}");
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// The closing line.
impl fmt::Display for Overview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { passed, failed, skipped } = self.sum;
        write!(f, "\ngt: {passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    /// Exercises each kind of step so that the closing line counts every test once and has its exact form.
    #[test]
    fn the_closing_line_sums_the_steps() {
        let mut overview = Overview::default();
        overview.record("fmt", 0.5, Ok(Ended::ok()));
        overview.record("deny", 0.0, Ok(Ended::skipped("not installed")));
        overview.record("unit tests", 1.0, Ok(Ended::counted(Counts { passed: 7, failed: 0, skipped: 1 })));
        let here = Counts { passed: 5, failed: 0, skipped: 4 };
        overview.record("kernel tests here", 1.0, Ok(Ended::counted_elsewhere(here)));
        assert!(!overview.failed());
        overview.record("build", 2.0, Err(anyhow!("ended with 101\nmore")));
        overview.record("vm", 0.0, Err(anyhow!(NO_BUILD)));
        assert!(overview.failed());
        assert_eq!(overview.to_string(), "\ngt: 8 passed, 1 failed, 3 skipped");
        let text = overview.table();
        assert!(
            text.contains("kernel tests here        ok           1.0  5 ok, 0 bad, 4 left out\n"),
            "{text}"
        );
        assert!(text.contains("build                    failed       2.0  ended with 101\n"), "{text}");
    }
}
