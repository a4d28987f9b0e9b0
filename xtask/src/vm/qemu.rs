//! Boots a guest and reads its serial console until it ends.

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    path::Path,
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::{kernels::Boot, package::Image};
use crate::{
    libtest::Report,
    stream::{End, stream},
};

/// What /init says last.
const VERDICT: &str = "gt-vm-verdict: ";

/// What /init says before the tests' own lines.
const TESTS: &str = "gt-vm-tests: ";

/// Lines of the serial log that an error shows.
const TAIL: usize = 40;

/// A guest that has come to a verdict.
#[derive(Debug)]
pub(super) struct Ended {
    pub report: Report,
    pub passed: bool,
}

/// Boots the kernel; `serial` becomes the log of its console. The tests' lines are printed with `prefix`.
pub(super) fn run(
    image: &Image,
    boot: Boot,
    initramfs: &Path,
    serial: &Path,
    prefix: &str,
    limit: Duration,
) -> Result<Ended> {
    let mut command = Command::new("qemu-system-x86_64");
    command
        // KVM is a gift where it works; software emulation is enough and the same everywhere.
        .args(["-accel", "tcg,thread=multi", "-smp", "2", "-m", "2048"])
        .args(["-nodefaults", "-no-reboot", "-display", "none", "-monitor", "none", "-serial", "stdio"])
        .arg("-kernel")
        .arg(&image.vmlinuz)
        .arg("-initrd")
        .arg(initramfs)
        // An oops is a failure: it panics, and a panic reboots, which -no-reboot turns into an end.
        .arg("-append")
        .arg(format!("console=ttyS0 loglevel=3 oops=panic panic=-1 tsc=reliable{}", boot.append()));

    let mut log =
        BufWriter::new(File::create(serial).with_context(|| format!("cannot write {}", serial.display()))?);
    let mut written = Ok(());
    let mut lines = Vec::new();
    let mut report = Report::default();
    let mut shown = false;
    let end = stream(command, limit, |line| {
        if written.is_ok() {
            written = writeln!(log, "{line}");
        }
        // What comes before and after is the kernel's, and only in the log.
        shown = (shown || line.starts_with(TESTS)) && !line.starts_with(VERDICT);
        if shown && !line.is_empty() {
            println!("{prefix}{line}");
            report.line(line);
        }
        lines.push(line.to_owned());
    })?;
    written.and_then(|()| log.flush()).with_context(|| format!("cannot write {}", serial.display()))?;

    match verdict(&lines, end) {
        Ok(passed) => Ok(Ended { report: report.finish(), passed }),
        Err(reason) => bail!(
            "the guest came to no verdict: {reason}. The end of {}:\n{}",
            serial.display(),
            lines[lines.len().saturating_sub(TAIL)..].join("\n")
        ),
    }
}

/// Whether the guest passed; an error when that cannot be said.
fn verdict(lines: &[String], end: End) -> Result<bool, String> {
    if let Some(line) = lines.iter().find(|line| line.contains("Kernel panic - not syncing")) {
        return Err(format!("its kernel panicked ({})", line.trim()));
    }
    if !end.success() {
        return Err(format!("qemu ended with {end}"));
    }
    let mut verdicts = lines.iter().filter_map(|line| line.strip_prefix(VERDICT));
    match (verdicts.next(), verdicts.next()) {
        (Some("pass"), None) => Ok(true),
        (Some(verdict), None) if verdict.starts_with("fail init") => Err(verdict.to_owned()),
        (Some(verdict), None) if verdict.starts_with("fail ") => Ok(false),
        (Some(verdict), None) => Err(format!("unknown verdict {verdict:?}")),
        (None, _) => Err("it printed no verdict line".to_owned()),
        (Some(_), Some(_)) => Err("it printed several verdict lines".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn told(text: &str) -> Result<bool, String> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        verdict(&lines, End::Exited(std::process::ExitStatus::from_raw(0)))
    }

    /// Exercises each way a guest can end so that only one clean verdict line counts.
    #[test]
    fn only_one_verdict_line_counts() {
        assert_eq!(told("boot\ngt-vm-verdict: pass"), Ok(true));
        assert_eq!(told("gt-vm-verdict: fail 101"), Ok(false));
        assert!(told("gt-vm-verdict: fail init could not mount").is_err());
        assert!(told("boot").is_err());
        assert!(told("gt-vm-verdict: pass\ngt-vm-verdict: pass").is_err());
        assert!(told("gt-vm-verdict: maybe").is_err());
        assert!(told("gt-vm-verdict: pass\n[ 1.0] Kernel panic - not syncing: x").is_err());
    }

    /// Exercises the limit so that a verdict before a hang is no pass.
    #[test]
    fn a_killed_guest_has_no_verdict() {
        let lines = ["gt-vm-verdict: pass".to_owned()];
        assert!(verdict(&lines, End::Limit(Duration::from_secs(1))).is_err());
    }
}
