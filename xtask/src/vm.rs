//! Runs the kernel tests on other kernels, in guests that qemu boots from an initramfs.
//!
//! Facts about kernels are in [`kernels`]; the rest is fetch, pack, boot, read the verdict.

mod archive;
mod initramfs;
pub mod kernels;
mod modules;
mod package;
mod qemu;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

use crate::{
    artifacts,
    libtest::{Outcome, Report, ran_nowhere},
    setup::{self, Need},
};
pub use initramfs::Guest;
use kernels::{KERNELS, Kernel};

/// From outside: a guest that hangs cannot be asked to stop.
const LIMIT: Duration = Duration::from_secs(40 * 60);

/// What `cargo xtask vm-test` was told.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Which kernel to boot: a name of xtask/src/vm/kernels.rs, or `all`
    #[arg(long, default_value = "6.1")]
    kernel: String,
    /// Minutes after which a guest is killed
    #[arg(long, default_value_t = LIMIT.as_secs() / 60)]
    limit: u64,
    /// Use this daemon instead of building one (static)
    #[arg(long, requires = "tests")]
    daemon: Option<PathBuf>,
    /// Use this test executable instead of building one (static)
    #[arg(long, requires = "daemon")]
    tests: Option<PathBuf>,
    /// Run only the tests whose name contains this
    filter: Option<String>,
}

/// `cargo xtask vm-test`.
pub fn run(options: &Options) -> Result<()> {
    let kernels = select(&options.kernel)?;
    let built;
    let (daemon, kernel_tests) = if let (Some(daemon), Some(tests)) = (&options.daemon, &options.tests) {
        setup::ensure(&[Need::Vm])?;
        (daemon, tests)
    } else {
        setup::ensure(&[Need::Build, Need::Vm])?;
        built = artifacts::build()?;
        built.kernel()?
    };
    let guest = Guest { daemon, kernel_tests, filter: options.filter.as_deref(), skip: &[] };
    let (mut reports, mut failed) = (Vec::new(), Vec::new());
    for kernel in &kernels {
        let started = Instant::now();
        match boot(kernel, &guest, Duration::from_secs(options.limit * 60)) {
            Ok(report) => {
                println!("{}", summary(kernel, &report, started.elapsed()));
                if report.failed().next().is_some() {
                    failed.push(kernel.name);
                }
                reports.push(report);
            }
            Err(error) => {
                println!("vm-test: kernel {}: failed: {error:#}", kernel.name);
                failed.push(kernel.name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("the kernel tests failed on: {}", failed.join(", "));
    }
    // One kernel may lack what a test needs; that all do is a hole.
    let nowhere = ran_nowhere(&reports);
    if kernels.len() > 1 && !nowhere.is_empty() {
        bail!("these tests ran on no kernel: {}", Vec::from_iter(nowhere).join(", "));
    }
    Ok(())
}

/// One kernel's line, and one for each test that failed or was left out.
fn summary(kernel: &Kernel, report: &Report, took: Duration) -> String {
    let count =
        |wanted: fn(&Outcome) -> bool| report.tests.values().filter(|outcome| wanted(outcome)).count();
    let mut text = format!(
        "vm-test: kernel {}: {} passed, {} failed, {} skipped in {:.0} s",
        kernel.name,
        count(|outcome| *outcome == Outcome::Passed),
        count(|outcome| *outcome == Outcome::Failed),
        count(|outcome| matches!(outcome, Outcome::Skipped(_))),
        took.as_secs_f32()
    );
    for (name, outcome) in &report.tests {
        match outcome {
            Outcome::Passed => {}
            Outcome::Failed => text.push_str(&format!("\n  failed: {name}")),
            Outcome::Skipped(reason) => text.push_str(&format!("\n  left out: {name}: {reason}")),
        }
    }
    text
}

/// Boots one kernel and gives what its tests said. An error is the machinery's: no verdict, a verdict
/// that its tests do not explain, or no test at all.
pub fn boot(kernel: &Kernel, guest: &Guest<'_>, limit: Duration) -> Result<Report> {
    let image = package::image(kernel)?;
    let initramfs = initramfs::build(kernel, &image, guest)?;
    let serial = package::directory(kernel).join("serial.log");
    let prefix = format!("vm-{} | ", kernel.name);
    println!("vm-test: booting {} (console in {})", image.release, serial.display());
    let ended = qemu::run(&image, kernel.boot, &initramfs, &serial, &prefix, limit)?;
    let failed = ended.report.failed().count();
    if ended.passed != (failed == 0) {
        bail!(
            "the test executable ended with {}, but {failed} tests failed: see {}",
            if ended.passed { "success" } else { "a failure" },
            serial.display()
        );
    }
    if ended.report.tests.is_empty() {
        bail!("no test ran in the guest: does the filter fit a test's name? See {}", serial.display());
    }
    Ok(ended.report)
}

/// The guest of a name.
pub fn named(name: &str) -> Result<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.name == name).with_context(|| {
        let names: Vec<_> = KERNELS.iter().map(|kernel| kernel.name).collect();
        format!("no kernel {name:?}: there are {} and all", names.join(", "))
    })
}

/// The kernels that a name stands for.
fn select(name: &str) -> Result<Vec<&'static Kernel>> {
    if name == "all" { Ok(KERNELS.iter().collect()) } else { Ok(vec![named(name)?]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises the selection so that an unknown kernel is an error and never an empty success.
    #[test]
    fn kernels_are_selected_by_name() {
        assert_eq!(select("all").unwrap().len(), KERNELS.len());
        assert_eq!(select("6.1").unwrap()[0].name, "6.1");
        assert!(select("2.4").is_err());
    }
}
