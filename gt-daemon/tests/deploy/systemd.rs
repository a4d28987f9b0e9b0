//! The unit for a host without a kubelet, with systemd's own tool as the judge.

use std::{collections::BTreeSet, fs, process::Command};

use anyhow::{Context as _, ensure};
use gt_daemon::kernel::capability;
use xtask::sandbox;

use crate::{Case, repository, without};

pub fn cases() -> Vec<Case> {
    let skip = without("systemd-analyze");
    vec![
        Case::new("systemd::verify", skip.as_ref(), verify),
        Case::new("systemd::capabilities", None, capabilities),
        Case::new("systemd::hides_nothing", None, hides_nothing),
        Case::new("systemd::the_pods_file", None, the_pods_file),
    ]
}

const UNIT: &str = "deploy/systemd/gt-daemon.service";

fn settings(name: &str) -> anyhow::Result<Vec<String>> {
    let unit = fs::read_to_string(repository(UNIT))?;
    let lines = unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    Ok(lines.map(str::to_owned).collect())
}

/// Exercises the unit with the daemon's executable in its place, so that systemd understands each line.
fn verify() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let unit = fs::read_to_string(repository(UNIT))?;
    let binary = env!("CARGO_BIN_EXE_gt-daemon");
    ensure!(unit.contains("ExecStart=/usr/local/bin/gt-daemon "), "{unit}");
    let file = directory.path().join("gt-daemon.service");
    fs::write(&file, unit.replace("/usr/local/bin/gt-daemon", binary))?;
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    // It looks at other units of this machine as well.
    let about: Vec<_> = said.lines().filter(|line| line.contains("gt-daemon.service")).collect();
    ensure!(output.status.success() && about.is_empty(), "{}: {said}", output.status);
    Ok(())
}

/// Exercises the unit's rights against the daemon's, so that neither has one more.
fn capabilities() -> anyhow::Result<()> {
    let set = settings("CapabilityBoundingSet")?;
    let granted: BTreeSet<_> = set.iter().flat_map(|line| line.split_whitespace()).collect();
    let used: BTreeSet<_> = capability::ALL.iter().map(|capability| capability.name).collect();
    ensure!(granted == used, "granted {granted:?}, used {used:?}");
    // None of them raises a hard limit, and before 5.11 the maps need this one.
    ensure!(settings("LimitMEMLOCK")? == ["infinity"], "{:?}", settings("LimitMEMLOCK")?);
    Ok(())
}

/// What hides something that the daemon reads, by systemd.exec(5): `/proc/kallsyms`, or other processes and their namespaces.
const HIDING: [&str; 7] = [
    "ProtectKernelTunables",
    "ProtectProc",
    "ProcSubset",
    "PrivateNetwork",
    "PrivatePIDs",
    "PrivateUsers",
    "RootDirectory",
];

/// Exercises the sandbox so that none of its settings hides what docs/capabilities.md says is needed. A daemon that cannot read
/// `/proc/kallsyms` tries functions that are not there, and ends.
fn hides_nothing() -> anyhow::Result<()> {
    for name in HIDING {
        let set = settings(name)?;
        ensure!(set.is_empty(), "{name}={}: it hides what the daemon reads", set.join(" "));
    }
    let hidden = settings("InaccessiblePaths")?;
    ensure!(hidden == ["-/proc/kcore"], "{hidden:?}");
    Ok(())
}

/// Exercises the pods file that is installed beside the unit, and the unit's command line, by the daemon's own reading.
fn the_pods_file() -> anyhow::Result<()> {
    let start = settings("ExecStart")?;
    let start = start.first().context("no ExecStart")?;
    ensure!(start.contains("--pods static:/etc/gt/pods.toml"), "{start}");
    let pods = gt_daemon::pods::static_file::pods(&repository("deploy/systemd/pods.toml"))?;
    let names: Vec<_> = pods.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
    ensure!(names == ["lb/haproxy"], "{names:?}");
    let help = sandbox::run(Command::new(env!("CARGO_BIN_EXE_gt-daemon")).args(["run", "--help"]))?;
    for option in start.split_whitespace().filter(|word| word.starts_with("--")) {
        ensure!(help.contains(option), "the daemon has no {option}");
    }
    Ok(())
}
