//! Which hook answers which question: a pure decision over [`KernelSupport`].

use serde::Serialize;

use super::support::KernelSupport;

/// What gt asks the kernel. Each question has kprobes and one BTF tracepoint that answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    StateChange,
    Read,
    RstSent,
    RstReceived,
    SocketEnd,
}

/// A kernel program and the place it attaches to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Name in the eBPF object.
    pub program: &'static str,
    /// Kernel function or tracepoint.
    pub target: &'static str,
    /// Only there when the kernel has IPv6.
    pub ipv6: bool,
}

const fn hook(program: &'static str, target: &'static str) -> Hook {
    Hook { program, target, ipv6: false }
}

impl Question {
    /// All questions.
    pub const ALL: [Self; 5] =
        [Self::StateChange, Self::Read, Self::RstSent, Self::RstReceived, Self::SocketEnd];

    /// The name in metrics, logs and `doctor`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::StateChange => "state_change",
            Self::Read => "read",
            Self::RstSent => "rst_sent",
            Self::RstReceived => "rst_received",
            Self::SocketEnd => "socket_end",
        }
    }

    /// The kprobes that together answer the question.
    #[must_use]
    pub const fn kprobes(self) -> &'static [Hook] {
        const STATE_CHANGE: &[Hook] = &[hook("kprobe_tcp_set_state", "tcp_set_state")];
        const READ: &[Hook] = &[hook("kprobe_tcp_rcv_space_adjust", "tcp_rcv_space_adjust")];
        const RST_SENT: &[Hook] = &[
            hook("kprobe_tcp_send_active_reset", "tcp_send_active_reset"),
            hook("kprobe_tcp_v4_send_reset", "tcp_v4_send_reset"),
            Hook { program: "kprobe_tcp_v6_send_reset", target: "tcp_v6_send_reset", ipv6: true },
        ];
        const RST_RECEIVED: &[Hook] = &[hook("kprobe_tcp_reset", "tcp_reset")];
        const SOCKET_END: &[Hook] = &[hook("kprobe_tcp_v4_destroy_sock", "tcp_v4_destroy_sock")];
        match self {
            Self::StateChange => STATE_CHANGE,
            Self::Read => READ,
            Self::SocketEnd => SOCKET_END,
            Self::RstSent => RST_SENT,
            Self::RstReceived => RST_RECEIVED,
        }
    }

    /// The BTF tracepoint that answers the question.
    #[must_use]
    pub const fn tracepoint(self) -> Hook {
        match self {
            Self::StateChange => hook("btf_inet_sock_set_state", "inet_sock_set_state"),
            Self::Read => hook("btf_tcp_rcv_space_adjust", "tcp_rcv_space_adjust"),
            Self::RstSent => hook("btf_tcp_send_reset", "tcp_send_reset"),
            Self::RstReceived => hook("btf_tcp_receive_reset", "tcp_receive_reset"),
            Self::SocketEnd => hook("btf_tcp_destroy_sock", "tcp_destroy_sock"),
        }
    }
}

/// A way of attaching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    Kprobe,
    Btf,
}

impl Backend {
    /// Both, in the order of preference.
    pub const ALL: [Self; 2] = [Self::Kprobe, Self::Btf];

    /// The name in metrics, logs and `doctor`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kprobe => "kprobe",
            Self::Btf => "btf",
        }
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Kprobe => Self::Btf,
            Self::Btf => Self::Kprobe,
        }
    }
}

/// What the user asked for (`--attach`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Attach {
    /// Kprobes, or BTF tracepoints where a question's kprobes cannot serve.
    Auto,
    /// Kprobes only.
    Kprobe,
    /// BTF tracepoints only.
    Btf,
}

impl Attach {
    /// Whether this backend may be used.
    #[must_use]
    pub fn allows(self, backend: Backend) -> bool {
        match self {
            Self::Auto => true,
            Self::Kprobe => backend == Backend::Kprobe,
            Self::Btf => backend == Backend::Btf,
        }
    }
}

/// The decision for one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    pub question: Question,
    /// `None`: this kernel cannot answer the question in a way that is allowed.
    pub backend: Option<Backend>,
    /// Why, in words.
    pub reason: String,
}

/// Chooses a backend for every question.
#[must_use]
pub fn plan(support: &KernelSupport, attach: Attach) -> Vec<Choice> {
    Question::ALL.iter().map(|question| choose(support, attach, *question)).collect()
}

fn choose(support: &KernelSupport, attach: Attach, question: Question) -> Choice {
    let mut refusals = Vec::new();
    for backend in Backend::ALL.into_iter().filter(|backend| attach.allows(*backend)) {
        match serves(support, question, backend) {
            Ok(()) => {
                let reason = if refusals.is_empty() {
                    match attach {
                        Attach::Auto => "preferred, and this kernel has it".to_owned(),
                        Attach::Kprobe | Attach::Btf => "asked for by --attach".to_owned(),
                    }
                } else {
                    refusals.join("; ")
                };
                return Choice { question, backend: Some(backend), reason };
            }
            Err(refusal) => refusals.push(refusal),
        }
    }
    Choice { question, backend: None, reason: refusals.join("; ") }
}

/// Whether a backend can answer a question on this kernel, else why not. What is unknown is tried: the
/// self-check has the last word.
pub fn serves(support: &KernelSupport, question: Question, backend: Backend) -> Result<(), String> {
    match backend {
        Backend::Kprobe => {
            if support.kprobes == Some(false) {
                return Err("this kernel has no kprobes (CONFIG_KPROBE_EVENTS)".to_owned());
            }
            for hook in hooks(support, question, backend) {
                if support.functions.get(hook.target).copied().flatten() == Some(false) {
                    return Err(format!("function {} is inlined or renamed in this kernel", hook.target));
                }
            }
            Ok(())
        }
        Backend::Btf => {
            let target = question.tracepoint().target;
            match support.tracepoints.get(target).copied().flatten() {
                Some(false) => Err(format!("this kernel has no tracepoint {target}")),
                _ => Ok(()),
            }
        }
    }
}

/// The hooks that a backend attaches for a question.
#[must_use]
pub fn hooks(support: &KernelSupport, question: Question, backend: Backend) -> Vec<Hook> {
    match backend {
        Backend::Kprobe => {
            question.kprobes().iter().copied().filter(|hook| support.ipv6 || !hook.ipv6).collect()
        }
        Backend::Btf => vec![question.tracepoint()],
    }
}

/// Whether RSTs that answer segments without a socket, or in TIME_WAIT, are seen. Where not, their number is
/// unknown, not zero.
#[must_use]
pub fn sees_reset_without_socket(support: &KernelSupport, backend: Option<Backend>) -> bool {
    match backend {
        Some(Backend::Kprobe) => true,
        Some(Backend::Btf) => support.reset_without_socket == Some(true),
        None => false,
    }
}

/// Why `run` cannot work on this kernel at all; empty when it can.
#[must_use]
pub fn obstacles(support: &KernelSupport, attach: Attach) -> Vec<String> {
    use super::capability::{BPF, PERFMON};

    let mut obstacles = Vec::new();
    if let Some(version) = support.version
        && version < (5, 10)
    {
        obstacles.push(format!(
            "kernel {} is too old: gt needs 5.10 or newer (ring buffer, BTF); upgrade this node",
            support.release
        ));
    }
    if let Err(error) = &support.layout {
        obstacles.push(error.clone());
    }
    if let Some(held) = support.capabilities {
        for capability in [BPF, PERFMON].into_iter().filter(|capability| !held.holds(*capability)) {
            obstacles.push(format!(
                "this process lacks {}, needed to {}: run it as root or grant the capability",
                capability.name, capability.purpose
            ));
        }
    }
    if support.lockdown.as_deref() == Some("confidentiality") {
        obstacles.push(
            "kernel lockdown is in confidentiality mode, which forbids reading kernel memory from eBPF: boot \
             with lockdown=integrity or none"
                .to_owned(),
        );
    }
    let mut unanswered: Vec<(String, Vec<&str>)> = Vec::new();
    for choice in plan(support, attach).into_iter().filter(|choice| choice.backend.is_none()) {
        match unanswered.iter_mut().find(|(reason, _)| *reason == choice.reason) {
            Some((_, names)) => names.push(choice.question.name()),
            None => unanswered.push((choice.reason, vec![choice.question.name()])),
        }
    }
    for (reason, names) in unanswered {
        obstacles
            .push(format!("no hook for {}: {reason}; use --attach auto or another kernel", names.join(", ")));
    }
    obstacles
}

#[cfg(test)]
mod tests {
    use gt_common::layout::KernelLayout;

    use super::*;
    use crate::kernel::capability::Capabilities;

    /// A kernel that can do everything; each test takes one thing away.
    fn capable() -> KernelSupport {
        KernelSupport {
            release: "6.12.1".to_owned(),
            version: Some((6, 12)),
            layout: Ok(KernelLayout::UNKNOWN),
            kprobes: Some(true),
            functions: Question::ALL
                .iter()
                .flat_map(|question| question.kprobes())
                .map(|hook| (hook.target, Some(true)))
                .collect(),
            tracepoints: Question::ALL.iter().map(|q| (q.tracepoint().target, Some(true))).collect(),
            reset_without_socket: Some(true),
            reset_has_packet: Some(true),
            knows_syscall: Some(true),
            hz: 250,
            ipv6: true,
            lockdown: None,
            capabilities: Capabilities::parse("CapEff:\t000001ffffffffff"),
        }
    }

    fn backends(support: &KernelSupport, attach: Attach) -> Vec<Option<Backend>> {
        plan(support, attach).into_iter().map(|choice| choice.backend).collect()
    }

    /// Exercises one fact at a time, so that each fact moves the decision it should and no other.
    #[test]
    fn one_fact_at_a_time() {
        use Backend::{Btf, Kprobe};
        assert_eq!(backends(&capable(), Attach::Auto), [Some(Kprobe); 5]);
        assert_eq!(backends(&capable(), Attach::Btf), [Some(Btf); 5]);
        assert!(obstacles(&capable(), Attach::Auto).is_empty());

        let no_kprobes = KernelSupport { kprobes: Some(false), ..capable() };
        assert_eq!(backends(&no_kprobes, Attach::Auto), [Some(Btf); 5]);
        assert_eq!(backends(&no_kprobes, Attach::Kprobe), [None; 5]);
        assert_eq!(obstacles(&no_kprobes, Attach::Kprobe).len(), 1);

        let mut inlined = capable();
        inlined.functions.insert("tcp_v4_send_reset", Some(false));
        assert_eq!(
            backends(&inlined, Attach::Auto),
            [Some(Kprobe), Some(Kprobe), Some(Btf), Some(Kprobe), Some(Kprobe)]
        );

        let mut no_v6_function = capable();
        no_v6_function.functions.insert("tcp_v6_send_reset", Some(false));
        assert_eq!(backends(&no_v6_function, Attach::Auto)[2], Some(Btf));
        no_v6_function.ipv6 = false;
        assert_eq!(backends(&no_v6_function, Attach::Auto)[2], Some(Kprobe));
        assert_eq!(hooks(&no_v6_function, Question::RstSent, Kprobe).len(), 2);

        let mut neither = KernelSupport { kprobes: Some(false), ..capable() };
        neither.tracepoints.insert("tcp_receive_reset", Some(false));
        assert_eq!(backends(&neither, Attach::Auto)[3], None);
        assert_eq!(backends(&neither, Attach::Auto)[2], Some(Btf));
        assert!(obstacles(&neither, Attach::Auto)[0].contains("rst_received"));
    }

    /// Exercises unknown facts, so that unknown is not no.
    #[test]
    fn unknown_is_tried() {
        let mut unknown = KernelSupport { kprobes: None, capabilities: None, version: None, ..capable() };
        unknown.functions.values_mut().for_each(|known| *known = None);
        unknown.tracepoints.values_mut().for_each(|known| *known = None);
        assert_eq!(backends(&unknown, Attach::Auto), [Some(Backend::Kprobe); 5]);
        assert_eq!(backends(&unknown, Attach::Btf), [Some(Backend::Btf); 5]);
        assert!(obstacles(&unknown, Attach::Auto).is_empty());
    }

    /// Exercises what stops gt altogether, so that each obstacle is named with its remedy.
    #[test]
    fn obstacles_are_named() {
        let old = KernelSupport { version: Some((5, 4)), release: "5.4.0".to_owned(), ..capable() };
        assert!(obstacles(&old, Attach::Auto)[0].contains("5.4.0"));
        let blind = KernelSupport { layout: Err("no types".to_owned()), ..capable() };
        assert_eq!(obstacles(&blind, Attach::Auto), ["no types"]);
        let user = KernelSupport { capabilities: Capabilities::parse("CapEff: 0"), ..capable() };
        assert!(obstacles(&user, Attach::Auto)[0].contains("CAP_BPF"));
        assert!(obstacles(&user, Attach::Auto)[1].contains("CAP_PERFMON"));
        let locked = KernelSupport { lockdown: Some("confidentiality".to_owned()), ..capable() };
        assert!(obstacles(&locked, Attach::Auto)[0].contains("lockdown"));
        let tolerable = KernelSupport { lockdown: Some("integrity".to_owned()), ..capable() };
        assert!(obstacles(&tolerable, Attach::Auto).is_empty());
    }

    /// Exercises the older tracepoint, so that a count it cannot see is never taken for zero.
    #[test]
    fn resets_without_a_socket_may_be_unseen() {
        let old = KernelSupport { reset_without_socket: Some(false), ..capable() };
        assert!(sees_reset_without_socket(&old, Some(Backend::Kprobe)));
        assert!(!sees_reset_without_socket(&old, Some(Backend::Btf)));
        assert!(sees_reset_without_socket(&capable(), Some(Backend::Btf)));
        let unknown = KernelSupport { reset_without_socket: None, ..capable() };
        assert!(!sees_reset_without_socket(&unknown, Some(Backend::Btf)));
    }
}
