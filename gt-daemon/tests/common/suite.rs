//! What the suites without cargo's harness share: tests that may be skipped, with a reason that is told.

use libtest_mimic::{Arguments, Conclusion, Failed, Trial};

/// A test before it becomes a trial; with a reason when it cannot run here.
pub struct Case {
    name: &'static str,
    skip: Option<String>,
    run: fn() -> anyhow::Result<()>,
}

impl Case {
    pub fn new(name: &'static str, skip: Option<&String>, run: fn() -> anyhow::Result<()>) -> Self {
        Self { name, skip: skip.cloned(), run }
    }
}

/// Runs the tests that the command line asks for. Each that is skipped is listed as ignored.
pub fn run(arguments: &Arguments, cases: impl IntoIterator<Item = Case>) -> Conclusion {
    let trials = cases
        .into_iter()
        .map(|Case { name, skip, run }| {
            if let Some(reason) = &skip {
                println!("skipped: {name}: {reason}");
            }
            Trial::test(name, move || run().map_err(|error| Failed::from(format!("{error:#}"))))
                .with_ignored_flag(skip.is_some())
        })
        .collect();
    libtest_mimic::run(arguments, trials)
}
