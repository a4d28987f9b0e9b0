//! What the figures were measured on, and how quiet it was.

use std::{fmt, fs, thread, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// The machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    pub(super) kernel: String,
    pub(super) cpu: String,
    pub(super) cpus: usize,
    /// Share of its CPUs' time that nothing used just before the benchmark, in percent.
    pub(super) idle: f64,
    /// Processes of that name just before the benchmark: their hooks run too, and take their time.
    pub(super) other_daemons: usize,
}

impl Machine {
    /// Looks for two seconds.
    pub(super) fn look() -> Result<Self> {
        let cpuinfo = read("/proc/cpuinfo")?;
        let cpu = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name.trim()))
            .unwrap_or("unknown CPU");
        let before = times(&read("/proc/stat")?);
        thread::sleep(Duration::from_secs(2));
        let after = times(&read("/proc/stat")?);
        Ok(Self {
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            cpu: cpu.to_owned(),
            cpus: thread::available_parallelism().map_or(1, usize::from),
            idle: idle(before, after),
            other_daemons: daemons(),
        })
    }
}

impl Machine {
    /// For machines.
    pub(super) fn json(&self) -> Value {
        json!({
            "kernel": self.kernel, "cpu": self.cpu, "cpus": self.cpus,
            "idle_percent": self.idle, "other_daemons": self.other_daemons,
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kernel {}, {} x {}, {:.0} % idle before the run",
            self.kernel, self.cpus, self.cpu, self.idle
        )?;
        if self.other_daemons > 0 {
            write!(f, ", {} other gt-daemon running", self.other_daemons)?;
        }
        Ok(())
    }
}

/// Processes named gt-daemon.
fn daemons() -> usize {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|process| fs::read_to_string(process.path().join("comm")).ok())
        .filter(|name| name.trim() == "gt-daemon")
        .count()
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {file}"))
}

/// Idle and whole time of all CPUs, from /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
fn times(stat: &str) -> (u64, u64) {
    let fields: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|field| field.parse().ok())
        .collect();
    let idle = fields.iter().skip(3).take(2).sum();
    (idle, fields.iter().sum())
}

/// Seconds in which the machine's CPUs were busy so far, of all together (`USER_HZ` is 100 everywhere gt runs).
#[expect(clippy::cast_precision_loss, reason = "2^52 ticks are a million years")]
pub(super) fn busy() -> Result<f64> {
    let (idle, all) = times(&read("/proc/stat")?);
    Ok(all.saturating_sub(idle) as f64 / 100.0)
}

#[expect(clippy::cast_precision_loss, reason = "ticks of two seconds")]
fn idle(before: (u64, u64), after: (u64, u64)) -> f64 {
    let idle = after.0.saturating_sub(before.0) as f64;
    let all = after.1.saturating_sub(before.1).max(1) as f64;
    100.0 * idle / all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises two readings, so that waiting for a disk counts as idle and stolen time does not.
    #[test]
    fn idle_share() {
        let before = times("cpu  10 0 10 100 0 0 0 0 5 0\ncpu0 1 1 1 1\n");
        let after = times("cpu  20 0 20 150 10 0 0 20 9 0\n");
        assert_eq!(before, (100, 120));
        assert!((idle(before, after) - 60.0).abs() < 1e-9);
    }
}
