//! What a process takes, as the kernel tells it.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};
use nix::{
    time::{ClockId, clock_getcpuclockid},
    unistd::Pid,
};

/// Memory of a process, in bytes (proc_pid_status(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) resident: u64,
    /// Of that, what is its own: heap and stacks.
    pub(super) anonymous: u64,
    /// Of that, its program and what it has mapped of the kernel's maps.
    pub(super) files: u64,
    /// The most that was ever resident.
    pub(super) most: u64,
}

impl Memory {
    /// Of this process now.
    pub(super) fn of(pid: u32) -> Result<Self> {
        let file = format!("/proc/{pid}/status");
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        memory(&text).with_context(|| format!("{file} does not tell its memory"))
    }
}

fn memory(status: &str) -> Option<Memory> {
    let bytes = |name: &str| -> Option<u64> {
        let rest = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    };
    Some(Memory {
        resident: bytes("VmRSS")?,
        anonymous: bytes("RssAnon")?,
        files: bytes("RssFile")?,
        most: bytes("VmHWM")?,
    })
}

/// The kernel's maps that a process holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kernel {
    /// Bytes of each (`bpf_map_show_fdinfo`, kernel/bpf/syscall.c), the largest first.
    pub(super) maps: Vec<u64>,
}

impl Kernel {
    /// Of this process now. A map that it holds by several descriptors is one.
    pub(super) fn of(pid: u32) -> Result<Self> {
        let directory = format!("/proc/{pid}/fdinfo");
        let files = fs::read_dir(&directory).with_context(|| format!("cannot read {directory}"))?;
        // One that was closed meanwhile has no text.
        let texts = files.flatten().filter_map(|file| fs::read_to_string(file.path()).ok());
        let mut maps: Vec<_> = texts.filter_map(|text| map(&text)).collect();
        maps.sort_unstable();
        maps.dedup();
        let mut maps: Vec<_> = maps.into_iter().map(|(_, bytes)| bytes).collect();
        maps.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Self { maps })
    }

    /// Bytes of all.
    pub(super) fn all(&self) -> u64 {
        self.maps.iter().sum()
    }
}

/// Number and bytes of the map behind a descriptor, if it is one.
fn map(fdinfo: &str) -> Option<(u64, u64)> {
    let field = |name: &str| -> Option<u64> {
        fdinfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.trim().parse().ok()
    };
    Some((field("map_id")?, field("memlock")?))
}

/// CPU time that a process has used so far, all its threads', also of those that have ended (clock_getcpuclockid(3)).
pub(super) fn used(pid: u32) -> Result<Duration> {
    let pid = Pid::from_raw(i32::try_from(pid)?);
    let time = clock_getcpuclockid(pid)
        .and_then(ClockId::now)
        .with_context(|| format!("cannot read the CPU time of process {pid}"))?;
    Ok(time.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises a status as the kernel writes it, and one that lacks a line.
    #[test]
    fn status() {
        let text = "Name:\tgt-daemon\nVmHWM:\t   92580 kB\nVmRSS:\t   34596 kB\nRssAnon:\t   11608 kB\nRssFile:\t   22988 kB\n";
        let found = memory(text).unwrap();
        assert_eq!((found.resident, found.most), (34_596 * 1024, 92_580 * 1024));
        assert_eq!((found.anonymous, found.files), (11_608 * 1024, 22_988 * 1024));
        assert_eq!(memory(&text.replace("RssFile", "RssShmem")), None);
    }

    /// Exercises descriptors of a map, of a program and of a file, so that only the map counts.
    #[test]
    fn descriptors() {
        let fdinfo =
            "pos:\t0\nmap_type:\t1\nmax_entries:\t131072\nmemlock:\t14681168\nmap_id:\t42289\nfrozen:\t0\n";
        assert_eq!(map(fdinfo), Some((42_289, 14_681_168)));
        assert_eq!(map("prog_type:\t26\nmemlock:\t4096\nprog_id:\t7\n"), None);
        assert_eq!(map("pos:\t0\nflags:\t02\n"), None);
    }

    /// Exercises this process, so that time that was used is told.
    #[test]
    fn own_time() {
        let before = used(std::process::id()).unwrap();
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_millis(20) {}
        assert!(used(std::process::id()).unwrap() > before);
    }
}
