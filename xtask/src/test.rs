//! `cargo xtask test`: everything that says whether gt works, in one command with one closing line.
//!
//! Each step is run even when an earlier one failed, except those that need a build that did not
//! succeed. What cannot run here is told as skipped, with the reason.

mod coverage;
#[cfg(test)]
mod faults_page;
mod left_behind;
mod overview;

use std::{
    env,
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use nix::unistd::geteuid;

use crate::{
    artifacts::{self, Artifacts},
    cargo, dist,
    libtest::Report,
    sandbox,
    setup::{self, nightly},
    stream::stream,
    vm,
};
use coverage::Coverage;
use overview::{Ended, Overview};

/// For steps that compile: a machine with two cores and nothing built yet.
const BUILD_LIMIT: Duration = Duration::from_secs(60 * 60);

/// For tests: one that hangs ends the step, not the patience of whoever waits.
const TEST_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Tests that run on the kernel here anyway, those of BTF tracepoints; `cargo xtask vm-test` runs them in a guest too.
/// Emulation is slow, and a guest is for what cannot be had here: kprobes and unified cgroups, which owners need by either backend.
const HERE_ONLY: [&str; 14] = [
    "btf::alarms",
    "btf::churn",
    "btf::conversations",
    "btf::drains",
    "btf::faults",
    "btf::inside",
    "btf::life",
    "btf::mixups",
    "btf::own::",
    "btf::rst",
    "btf::table",
    "btf::trace",
    "btf::turnover",
    "pods_by_their_namespaces",
];

/// A guest is ten times slower than the machine it runs on.
const GUEST_LIMIT: Duration = Duration::from_secs(35 * 60);

/// The guests whose tests belong to every run: a kernel with kprobes, and those for what few tests need.
const GUESTS: [(&str, &str); 3] = [
    ("kernel tests in a VM", "6.1"),
    ("  with hybrid cgroups", "6.1-hybrid"),
    ("  locked down", "6.1-lockdown"),
];

/// Runs all steps and ends with the overview, whose closing line is the last thing told.
#[must_use]
pub fn run() -> ExitCode {
    let mut overview = Overview::default();
    overview.step("setup", || setup::ensure(&setup::ALL).map(|()| Ended::ok()));
    overview.step("fmt", || checked(cargo::cargo(&["fmt", "--all", "--check"])));
    overview.step("clippy", || {
        checked(cargo::static_cargo("clippy", &["--quiet", "--all-targets", "--", "-D", "warnings"]))
    });
    overview.step("clippy gt-ebpf", clippy_ebpf);

    let mut built = None;
    overview.step("build", || {
        built = Some(artifacts::build()?);
        Ok(Ended::ok())
    });
    let mut coverage = Coverage::default();
    let mut units = Report::default();
    overview.step("unit tests", || unit_tests(need(built.as_ref())?, &mut units));
    let mut joins = Report::default();
    overview.step("join tests", || join_tests(need(built.as_ref())?, &mut joins));
    let mut labs = Report::default();
    overview.step("lab, short form", || lab(need(built.as_ref())?, &mut labs));
    overview.step("lab, ended early", || lab_ended_early(need(built.as_ref())?));
    overview.step("kernel tests here", || kernel_tests(need(built.as_ref())?, &mut coverage));
    for (step, guest) in GUESTS {
        overview.step(step, || in_guest(need(built.as_ref())?, guest, &mut coverage));
    }
    if built.is_some() {
        overview.step("kernel tests, coverage", || coverage.judge());
    }
    overview.step("licences", licences);
    overview.step("advisories", advisories);

    print!("{}", coverage.lists());
    print!("{}", overview.table());
    print!("{}{}", units.failures("unit tests"), joins.failures("join tests"));
    print!("{}{}", labs.failures("the lab"), coverage.failures());
    println!("{overview}");
    if overview.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn need(built: Option<&Artifacts>) -> Result<&Artifacts> {
    built.context(overview::NO_BUILD)
}

/// Runs a command that only says yes or no.
fn checked(command: Command) -> Result<Ended> {
    let name = command.get_args().take(3).map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let end = stream(command, BUILD_LIMIT, |line| println!("{line}"))?;
    if !end.success() {
        bail!("`cargo {name} ..` ended with {end}");
    }
    Ok(Ended::ok())
}

/// gt-ebpf compiles only for its own target and with nightly, so it has a clippy run of its own.
fn clippy_ebpf() -> Result<Ended> {
    let nightly = |args: &[&str]| {
        let mut command =
            cargo::other_toolchain("rustup", &[&["run", nightly::NAME, "cargo"], args].concat());
        command.current_dir(cargo::root());
        command
    };
    if sandbox::run(&mut nightly(&["clippy", "--version"])).is_err() {
        return Ok(Ended::skipped(
            "the nightly toolchain has no clippy: `rustup component add clippy --toolchain nightly`",
        ));
    }
    let args = [
        "clippy",
        "--quiet",
        "--package",
        "gt-ebpf",
        "--target",
        "bpfel-unknown-none",
        "-Z",
        "build-std=core",
    ];
    checked(nightly(&[&args[..], &["--", "-D", "warnings"]].concat()))
}

/// Everything but the kernel tests and those of the join: unit tests, and the tests of gt-hc's executable. Looks at no kernel; as
/// root one more of them runs.
fn unit_tests(built: &Artifacts, report: &mut Report) -> Result<Ended> {
    let mut args = vec!["--lib", "--bins"];
    for test in &built.integration_tests {
        args.extend(["--test", test]);
    }
    let end = stream(cargo::static_cargo("test", &args), BUILD_LIMIT, |line| {
        println!("{line}");
        report.line(line);
    })?;
    *report = std::mem::take(report).finish();
    let counts = report.counted.unwrap_or_default();
    if !end.success() && counts.failed == 0 {
        bail!("`cargo test` ended with {end}, and no test says why: see above");
    }
    Ok(Ended::counted(counts))
}

/// The kernel's view joined with the sidecar's and Envoy's, against real ones. Tests that cannot run here say why.
fn join_tests(built: &Artifacts, report: &mut Report) -> Result<Ended> {
    let (tests, daemon, hc) = built.join()?;
    let mut command = Command::new(tests);
    command.env("GT_DAEMON", daemon).env("GT_HC", hc);
    executable("join", command, report)?;
    Ok(Ended::counted(report.counted.unwrap_or_default()))
}

/// Drains of whole pods in the lab, each round with every witness as a judge.
fn lab(built: &Artifacts, report: &mut Report) -> Result<Ended> {
    if !geteuid().is_root() {
        return Ok(Ended::skipped("not root: namespaces, cgroups and bpf() need it"));
    }
    let (_, daemon, hc) = built.join()?;
    let image = dist::image_of("gt-daemon", daemon)?;
    // A process of its own: a signal ends it in its own way, with all that it has made removed.
    let mut command = Command::new(env::current_exe().context("cannot find this program's own file")?);
    command.args(["lab", "all", "--short", "--image"]).arg(image).arg("--hc").arg(hc);
    command.current_dir(cargo::root());
    streamed("lab", command, report)?;
    Ok(Ended::counted(report.counted.unwrap_or_default()))
}

/// The lab again, which must leave nothing behind however it ends.
fn lab_ended_early(built: &Artifacts) -> Result<Ended> {
    if !geteuid().is_root() {
        return Ok(Ended::skipped("not root: namespaces, cgroups and bpf() need it"));
    }
    let (_, daemon, hc) = built.join()?;
    left_behind::check(daemon, hc)
}

/// The kernel tests on the kernel this runs on.
fn kernel_tests(built: &Artifacts, coverage: &mut Coverage) -> Result<Ended> {
    if !geteuid().is_root() {
        return Ok(Ended::skipped("not root: namespaces, cgroups and bpf() need it"));
    }
    let (daemon, tests) = built.kernel()?;
    let mut command = Command::new(tests);
    command.env("GT_DAEMON", daemon).env("GT_ENVIRONMENT", "host");
    let mut report = Report::default();
    let ran = executable("host", command, &mut report);
    let ended = coverage.add("host", report);
    ran.map(|()| ended)
}

/// Runs a suite of gt-daemon's that has an executable of its own, one test at a time; the report is filled in any case.
fn executable(name: &str, mut command: Command, report: &mut Report) -> Result<()> {
    command.arg("--test-threads=1").current_dir(cargo::root().join("gt-daemon"));
    streamed(name, command, report)
}

/// Runs what tells of its tests as a suite does; the report is filled in any case.
fn streamed(name: &str, command: Command, report: &mut Report) -> Result<()> {
    let end = stream(command, TEST_LIMIT, |line| {
        println!("{name} | {line}");
        report.line(line);
    })?;
    *report = std::mem::take(report).finish();
    let failed = report.failed().count();
    if end.success() != (failed == 0) {
        bail!("the tests ended with {end}, but {failed} of them failed: see above");
    }
    Ok(())
}

/// The same executables in a guest.
fn in_guest(built: &Artifacts, name: &str, coverage: &mut Coverage) -> Result<Ended> {
    let (daemon, kernel_tests) = built.kernel()?;
    let guest = vm::Guest { daemon, kernel_tests, filter: None, skip: &HERE_ONLY };
    let kernel = vm::named(name)?;
    let report = vm::boot(kernel, &guest, GUEST_LIMIT)?;
    Ok(coverage.add(&format!("vm-{}", kernel.name), report))
}

const NO_DENY: &str = "cargo-deny is not installed: `cargo install cargo-deny --locked`";

fn has_deny() -> bool {
    sandbox::run(&mut cargo::cargo(&["deny", "--version"])).is_ok()
}

/// What the dependencies may be, as deny.toml says; needs no network.
fn licences() -> Result<Ended> {
    if !has_deny() {
        return Ok(Ended::skipped(NO_DENY));
    }
    checked(cargo::cargo(&["deny", "check", "licenses", "bans", "sources"]))
}

/// Known holes in the dependencies. Their list lives on GitHub: a machine that cannot reach it has not
/// found a hole, and has not shown that there is none.
fn advisories() -> Result<Ended> {
    if !has_deny() {
        return Ok(Ended::skipped(NO_DENY));
    }
    if let Err(error) = sandbox::run(&mut cargo::cargo(&["deny", "fetch", "db"])) {
        println!("{error:#}");
        return Ok(Ended::skipped("the advisory database cannot be fetched from github.com"));
    }
    checked(cargo::cargo(&["deny", "check", "advisories"]))
}
