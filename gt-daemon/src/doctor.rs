//! `gt-daemon doctor`: what this kernel can show, which hook would be used and why, what stays unseen.

use std::{fmt::Write as _, io::Write as _, path::Path, process::ExitCode};

use anyhow::Context as _;
use serde::Serialize;

use crate::{
    cli::DoctorOptions,
    kernel::{
        capability,
        cgroup::{Cgroups, Mode},
        plan::{self, Backend, Choice, Question},
        support::KernelSupport,
    },
    pods::netns::Netns,
    probes,
    run::HOST_NETNS,
};

#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    ebpf_sha256: String,
    kernel: String,
    btf: bool,
    kprobes: Option<bool>,
    lockdown: Option<String>,
    capabilities: Vec<CapabilityLine>,
    cgroups: Option<Mode>,
    hooks: Vec<Choice>,
    /// What cannot be observed here.
    unseen: Vec<String>,
    /// Why `run` could not work; empty when it could.
    obstacles: Vec<String>,
}

#[derive(Debug, Serialize)]
struct CapabilityLine {
    name: &'static str,
    purpose: &'static str,
    held: Option<bool>,
}

/// Prints the report; exit code 1 if `run` could not work.
pub fn doctor(options: &DoctorOptions) -> anyhow::Result<ExitCode> {
    let support = KernelSupport::probe();
    let report = report(&support, options);
    let text = if options.json { serde_json::to_string_pretty(&report)? + "\n" } else { text(&report) };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write the report to stdout")?;
    Ok(if report.obstacles.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn report(support: &KernelSupport, options: &DoctorOptions) -> Report {
    let hooks = plan::plan(support, options.kernel.attach);
    let mut obstacles = plan::obstacles(support, options.kernel.attach);
    let cgroups = match Cgroups::probe(&options.kernel.cgroup_root) {
        Ok(cgroups) => Some(cgroups.mode),
        Err(error) => {
            obstacles.push(error.to_string());
            None
        }
    };
    if let Err(error) = Netns::host(Path::new("/proc")) {
        obstacles.push(format!("{HOST_NETNS}: {error}"));
    }
    Report {
        version: env!("CARGO_PKG_VERSION"),
        ebpf_sha256: probes::object_digest(),
        kernel: support.release.clone(),
        btf: support.layout.is_ok(),
        kprobes: support.kprobes,
        lockdown: support.lockdown.clone(),
        capabilities: capability::ALL
            .into_iter()
            .map(|capability| CapabilityLine {
                name: capability.name,
                purpose: capability.purpose,
                held: support.capabilities.map(|held| held.holds(capability)),
            })
            .collect(),
        cgroups,
        unseen: unseen(support, &hooks, cgroups),
        hooks,
        obstacles,
    }
}

/// What no configuration of this machine's hooks shows.
fn unseen(support: &KernelSupport, hooks: &[Choice], cgroups: Option<Mode>) -> Vec<String> {
    let backend = |question| hooks.iter().find(|choice| choice.question == question).and_then(|c| c.backend);
    let mut unseen = Vec::new();
    if backend(Question::RstSent).is_some()
        && !plan::sees_reset_without_socket(support, backend(Question::RstSent))
    {
        unseen.push(
            "RSTs sent for segments without a socket or in TIME_WAIT: this kernel's tracepoint does not fire \
             for them (it does since 6.10), so they have no series"
                .to_owned(),
        );
    }
    if matches!(cgroups, Some(Mode::Hybrid | Mode::Legacy)) {
        unseen.push(
            "which container a socket belongs to, and pods in the host's network: without unified cgroups \
             (v2 only) a socket's cgroup says nothing, and network namespaces decide alone"
                .to_owned(),
        );
    }
    if support.knows_syscall == Some(false) {
        unseen.push(
            "what is spoken on a connection: programs cannot look at system calls here (they can since 5.15), \
             so a request that waits for its answer is proof of a cut only where the pods file declares the \
             protocol"
                .to_owned(),
        );
    }
    unseen.push(
        "RSTs that no TCP socket code sends or accepts: those of a packet filter (REJECT with tcp-reset), of \
         devices on the way, and received ones outside the window"
            .to_owned(),
    );
    unseen
}

fn text(report: &Report) -> String {
    let yes_no = |known: Option<bool>| match known {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    };
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        // Writing to a string cannot fail.
        let _infallible = writeln!(text, "{key:<16}{value}");
    };
    line("gt-daemon", report.version);
    line("ebpf", &format!("sha256 {}", report.ebpf_sha256));
    line("kernel", &report.kernel);
    line("types (BTF)", yes_no(Some(report.btf)));
    line("kprobes", yes_no(report.kprobes));
    line("lockdown", report.lockdown.as_deref().unwrap_or("none known"));
    let mode = match report.cgroups {
        Some(Mode::Unified) => "unified (v2)",
        Some(Mode::Hybrid) => "hybrid (v1 and v2)",
        Some(Mode::Legacy) => "legacy (v1)",
        None => "not found",
    };
    line("cgroups", mode);
    for capability in &report.capabilities {
        line(capability.name, &format!("{} (to {})", yes_no(capability.held), capability.purpose));
    }
    for choice in &report.hooks {
        let backend = choice.backend.map_or("none", Backend::name);
        line(choice.question.name(), &format!("{backend}: {}", choice.reason));
    }
    for unseen in &report.unseen {
        line("not seen here", unseen);
    }
    for obstacle in &report.obstacles {
        line("obstacle", obstacle);
    }
    line("verdict", if report.obstacles.is_empty() { "run can work here" } else { "run cannot work here" });
    text
}
