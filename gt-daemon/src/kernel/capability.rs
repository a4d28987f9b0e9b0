//! Which capabilities this process holds (capabilities(7)).

/// A capability gt uses, with what is lost without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    pub name: &'static str,
    bit: u32,
    /// What gt does with it.
    pub purpose: &'static str,
}

/// Loading programs and making maps.
pub const BPF: Capability =
    Capability { name: "CAP_BPF", bit: 39, purpose: "load the kernel programs and make their maps" };
/// Attaching to kernel functions and tracepoints, and reading kernel memory from there.
pub const PERFMON: Capability =
    Capability { name: "CAP_PERFMON", bit: 38, purpose: "attach to kernel functions and tracepoints" };
/// Covers the two above on any kernel; needed by itself for network namespaces.
pub const SYS_ADMIN: Capability =
    Capability { name: "CAP_SYS_ADMIN", bit: 21, purpose: "make the self-check's network namespace" };
/// Reading `/proc/<pid>/ns/net` of other users' processes.
pub const SYS_PTRACE: Capability = Capability {
    name: "CAP_SYS_PTRACE",
    bit: 19,
    purpose: "find a pod's network namespace by its processes",
};
/// Bringing up the loopback device of the self-check's namespace.
pub const NET_ADMIN: Capability =
    Capability { name: "CAP_NET_ADMIN", bit: 12, purpose: "bring up loopback in the self-check's namespace" };

/// All of them.
pub const ALL: [Capability; 5] = [BPF, PERFMON, SYS_ADMIN, SYS_PTRACE, NET_ADMIN];

/// A set of capabilities, as `CapEff` of `/proc/<pid>/status` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// Reads the effective set from the text of a `status` file.
    #[must_use]
    pub fn parse(status: &str) -> Option<Self> {
        let value = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(value.trim(), 16).ok().map(Self)
    }

    /// This process's effective set; `None` when `/proc` does not tell.
    #[must_use]
    pub fn current() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/self/status").ok()?)
    }

    /// Whether the set holds the capability itself, or CAP_SYS_ADMIN where that includes it.
    #[must_use]
    pub fn holds(self, capability: Capability) -> bool {
        let has = |bit: u32| self.0 >> bit & 1 == 1;
        has(capability.bit) || (matches!(capability, BPF | PERFMON) && has(SYS_ADMIN.bit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises the text of the file, so that a set is read as the kernel wrote it.
    #[test]
    fn sets_are_read() {
        let none = Capabilities::parse("Name:\tx\nCapEff:\t0000000000000000\n").unwrap();
        assert!(ALL.iter().all(|capability| !none.holds(*capability)));
        let bpf = Capabilities::parse("CapEff:\t0000008000000000\n").unwrap();
        assert!(bpf.holds(BPF) && !bpf.holds(PERFMON));
        let admin = Capabilities::parse("CapEff:\t0000000000200000\n").unwrap();
        assert!(admin.holds(BPF) && admin.holds(PERFMON) && admin.holds(SYS_ADMIN));
        assert!(!admin.holds(SYS_PTRACE));
        assert_eq!(Capabilities::parse("CapEff:\tzz\n"), None);
        assert_eq!(Capabilities::parse(""), None);
    }
}
