//! Facts about the running kernel; no decisions. Unknown is `None`, never "no".

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, BufRead as _, BufReader},
    path::Path,
};

use gt_common::layout::KernelLayout;
use nix::time::{ClockId, clock_getres};

use super::{
    btf::{BtfError, KernelTypes, VMLINUX},
    capability::Capabilities,
    plan::Question,
};

/// What was found out about a kernel.
#[derive(Clone, Debug)]
pub struct KernelSupport {
    /// `uname -r`.
    pub release: String,
    /// Major and minor of the release, `None` when it does not begin with two numbers.
    pub version: Option<(u32, u32)>,
    /// Offsets, or why there are none, in words.
    pub layout: Result<KernelLayout, String>,
    /// Whether the kernel has the kprobe event source.
    pub kprobes: Option<bool>,
    /// Which of the functions gt can hook are in the symbol table under their own name.
    pub functions: BTreeMap<&'static str, Option<bool>>,
    /// Which of the tracepoints gt can hook exist, by BTF.
    pub tracepoints: BTreeMap<&'static str, Option<bool>>,
    /// Whether `tcp_send_reset` fires without a full socket too (since 6.10, when it got its third argument).
    pub reset_without_socket: Option<bool>,
    /// Whether `tcp_reset` is given the packet (5.11 and newer).
    pub reset_has_packet: Option<bool>,
    /// Whether programs can look at the system call they run in (5.15 and newer), and so at the first bytes
    /// an application reads.
    pub knows_syscall: Option<bool>,
    /// Ticks of `jiffies` a second (CONFIG_HZ).
    pub hz: u32,
    /// Whether IPv6 is there at all.
    pub ipv6: bool,
    /// The kernel's lockdown mode, `None` when the kernel has no lockdown or does not tell.
    pub lockdown: Option<String>,
    /// Effective capabilities.
    pub capabilities: Option<Capabilities>,
}

impl KernelSupport {
    /// Looks at the running kernel. Takes some hundred milliseconds: the kernel's types are large.
    #[must_use]
    pub fn probe() -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        let types = KernelTypes::read(Path::new(VMLINUX));
        let targets = Question::ALL.iter().flat_map(|question| question.kprobes()).map(|hook| hook.target);
        let tracepoint = |name| types.as_ref().ok().map(|types| types.has_tracepoint(name));
        Self {
            version: version(&release),
            release,
            kprobes: exists("/sys/bus/event_source/devices", "kprobe/type"),
            functions: functions(File::open("/proc/kallsyms").ok(), &targets.collect()),
            tracepoints: Question::ALL
                .iter()
                .map(|question| question.tracepoint().target)
                .map(|name| (name, tracepoint(name)))
                .collect(),
            reset_without_socket: types
                .as_ref()
                .ok()
                .and_then(|types| types.tracepoint_parameters("tcp_send_reset"))
                .map(|parameters| parameters >= 3),
            reset_has_packet: types
                .as_ref()
                .ok()
                .and_then(|types| types.function_parameters("tcp_reset"))
                .map(|parameters| parameters >= 2),
            knows_syscall: types
                .as_ref()
                .ok()
                .map(|types| types.has_enumerator("bpf_func_id", "BPF_FUNC_task_pt_regs")),
            hz: hz(),
            ipv6: Path::new("/proc/net/if_inet6").exists(),
            lockdown: fs::read_to_string("/sys/kernel/security/lockdown")
                .ok()
                .and_then(|text| lockdown(&text)),
            capabilities: Capabilities::current(),
            layout: types.and_then(|types| types.layout()).map_err(|error: BtfError| error.to_string()),
        }
    }
}

/// Whether `file` is below `directory`; unknown where the directory itself is not there.
fn exists(directory: &str, file: &str) -> Option<bool> {
    let directory = Path::new(directory);
    directory.exists().then(|| directory.join(file).exists())
}

/// The mode in brackets: `none [integrity] confidentiality`.
fn lockdown(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (mode, _) = rest.split_once(']')?;
    Some(mode.to_owned())
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The resolution of the coarse clock is one tick (kernel/time/posix-timers.c, `KTIME_LOW_RES`).
fn hz() -> u32 {
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).map_or(0, |tick| tick.tv_nsec());
    u32::try_from(1_000_000_000_i64.checked_div(tick).unwrap_or(250)).unwrap_or(250)
}

/// Which functions are in `/proc/kallsyms` under exactly their name; a compiler that split one leaves only
/// `name.isra.0` and the like, which has other arguments. Unknown for a table that is empty or cannot be read whole.
/// Line by line: the table has more than 200,000.
fn functions(
    symbols: Option<impl io::Read>,
    targets: &BTreeSet<&'static str>,
) -> BTreeMap<&'static str, Option<bool>> {
    let told = symbols.and_then(|symbols| {
        let mut known: Option<BTreeSet<&str>> = None;
        let mut symbols = BufReader::new(symbols);
        let mut line = Vec::new();
        while symbols.read_until(b'\n', &mut line).ok()? > 0 {
            let known = known.get_or_insert_default();
            known.extend(str::from_utf8(&line).ok().and_then(function).and_then(|name| targets.get(name)));
            line.clear();
        }
        known
    });
    targets.iter().map(|target| (*target, told.as_ref().map(|known| known.contains(target)))).collect()
}

/// The function that a line of `/proc/kallsyms` names.
fn function(line: &str) -> Option<&str> {
    let (_address, symbol) = line.split_once(' ')?;
    symbol.strip_prefix("t ").or_else(|| symbol.strip_prefix("T "))?.split_ascii_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises the texts these facts come from, so that a look-alike is no fact.
    #[test]
    fn texts() {
        assert_eq!(version("6.1.0-53-cloud-amd64"), Some((6, 1)));
        assert_eq!(version("5.10"), Some((5, 10)));
        assert_eq!(version("weird"), None);
        assert_eq!(lockdown("none [integrity] confidentiality\n").as_deref(), Some("integrity"));
        assert_eq!(lockdown("none"), None);
        let symbols =
            "ffff T tcp_reset\nffff t tcp_v4_send_reset.isra.0\nffff D tcp_set_state\n0 t x [mod]\n";
        let told = [("tcp_reset", true), ("tcp_set_state", false), ("tcp_v4_send_reset", false)];
        let targets = BTreeSet::from(told.map(|(name, _)| name));
        let is = |known: fn(bool) -> Option<bool>| told.map(|(name, is)| (name, known(is))).into();
        assert_eq!(functions(Some(symbols.as_bytes()), &targets), is(Some));
        assert_eq!(functions(Some(io::empty()), &targets), is(|_| None));
        assert_eq!(functions(None::<io::Empty>, &targets), is(|_| None));
        assert!([100, 250, 300, 1000].contains(&hz()), "{}", hz());
    }
}
