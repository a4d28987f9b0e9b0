//! `gt-daemon run`: take the port, load, attach, check, watch, serve; on a signal let go of everything.

use std::{
    path::Path,
    process::ExitCode,
    sync::{Arc, Mutex},
    time::Instant,
};

use anyhow::{Context as _, bail};
use aya_log::EbpfLogger;
use gt_common::{
    config::Config,
    connection::{Evidence, Limits},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Duration, MissedTickBehavior, interval},
};
use tracing::{debug, error, info, warn};

use crate::{
    cli::RunOptions,
    http::{self, Views},
    kernel::{
        capability::{self, Capabilities},
        cgroup::{Cgroups, Mode},
        plan::{self, Attach, Choice, Question},
        support::KernelSupport,
    },
    metrics::{Health, Traffic, registry},
    pods::{Class, netns::Netns, owners::Owners, tracker::Tracker},
    probes::{
        LoadOptions, Probes,
        decode::{Known, Observed},
        events::Events,
        object_digest,
        self_check::{Expectation, Missed, self_check},
    },
};

/// How often pods are read.
const ROUND: Duration = Duration::from_millis(500);

/// How often the table of connections is compared with the sockets that are there.
const CHECK: Duration = Duration::from_secs(60);

/// An answer that was sent within this time of reading the request is a prompt one, not a stream.
const PROMPT_ANSWER: Duration = Duration::from_millis(250);

/// Acknowledgements may be delayed by 200 ms (`TCP_DELACK_MAX`, include/net/tcp.h).
const ACK_DELAY: Duration = Duration::from_millis(250);

/// What is said when the host's network namespace cannot be told from the pods'.
pub(crate) const HOST_NETNS: &str = "cannot read the host's network namespace (/proc/1/ns/net): run as root with \
                                     CAP_SYS_PTRACE, in the host's pid namespace";

/// Runs until SIGTERM or SIGINT.
pub fn run(options: &RunOptions) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context(
        "cannot start the daemon's threads; is the process or memory limit of this machine reached?",
    )?;
    let outcome = runtime.block_on(daemon(options));
    // Scrapes under way may take as long as this, not longer: a clean stop takes less than a second.
    runtime.shutdown_timeout(Duration::from_millis(300));
    outcome
}

async fn daemon(options: &RunOptions) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    // Whatever the environment gets wrong is told before anything is in the kernel.
    let support = KernelSupport::probe();
    refuse_obstacles(&support, options.kernel.attach)?;
    let cgroups = Cgroups::probe(&options.kernel.cgroup_root)?;
    let listener = http::listen(options.listen).await?;
    let container = (!options.container.is_empty()).then(|| options.container.clone());
    options.pods.pods(container.as_deref())?;
    let host_netns = Netns::host(Path::new("/proc")).context(HOST_NETNS)?;

    let config = config(&support, &cgroups, host_netns.inode(), options.stream_window);
    let debug = tracing::enabled!(target: "gt", tracing::Level::DEBUG);
    let (mut probes, events) = Probes::load(&LoadOptions {
        layout: support.layout.clone().map_err(anyhow::Error::msg)?,
        config,
        slots: options.slots,
        connections: options.connections,
        debug,
    })?;
    let maps = probes.maps();
    let health = Arc::new(Health::new(Arc::clone(&maps), object_digest()));
    let sees_no_socket = attach(&mut probes, &support, options.kernel.attach, &health)?;
    probes.load_iterator()?;
    let messages = if debug { probes.messages().ok() } else { None };
    let probes = Arc::new(Mutex::new(probes));

    let owners = Arc::new(Owners::new(options.slots));
    let tracker = Tracker {
        source: options.pods.clone(),
        container,
        ports: ports(options),
        cgroups,
        proc: "/proc".into(),
        host_netns,
        retain: options.retain,
        owners: Arc::clone(&owners),
        maps: Arc::clone(&maps),
        probes: Arc::clone(&probes),
    };
    let traffic = Traffic { owners: Arc::clone(&owners), maps, sees_no_socket };
    let views =
        Views { registry: Arc::new(registry(traffic, Arc::clone(&health))), health: Arc::clone(&health) };
    info!(address = %listener.local_addr()?, "serving /metrics, /healthz and /readyz");

    tokio::select! {
        served = http::serve(listener, views) => served.context("the HTTP server ended")?,
        () = watch(tracker, Arc::clone(&health)) => {}
        read = observe(events, owners, health, support.hz) => read.context("cannot read the kernel's events")?,
        () = show(messages) => {}
        _ = terminate.recv() => info!("SIGTERM: stopping"),
        _ = interrupt.recv() => info!("SIGINT: stopping"),
    }
    // The last handle of the probes is dropped here, which detaches every hook.
    drop(probes);
    Ok(ExitCode::SUCCESS)
}

/// What the kernel programs are told before they load.
fn config(support: &KernelSupport, cgroups: &Cgroups, host_netns: u32, stream_window: Duration) -> Config {
    let ticks = |time: Duration| {
        u32::try_from(time.as_millis().saturating_mul(u128::from(support.hz)) / 1000).unwrap_or(u32::MAX)
    };
    let (page_offset_base, vmemmap_base) = support.page_addressing;
    Config {
        page_offset_base,
        vmemmap_base,
        host_netns,
        cgroup_owner: u32::from(cgroups.mode == Mode::Unified),
        limits: Limits {
            stream_window: ticks(stream_window),
            prompt_answer: ticks(PROMPT_ANSWER),
            ack_delay: ticks(ACK_DELAY),
        },
        // Where BTF does not tell, the reset is doubted, as on kernels that give no packet.
        reset_has_packet: u32::from(support.reset_has_packet == Some(true)),
    }
}

fn ports(options: &RunOptions) -> Vec<(u16, Class)> {
    let health = options.health_ports.iter().map(|port| (*port, Class::Health));
    let admin = options.admin_ports.iter().map(|port| (*port, Class::Admin));
    health.chain(admin).collect()
}

/// Passes the kernel side's debug messages on.
async fn show<T: log::Log>(messages: Option<EbpfLogger<T>>) {
    let Some(mut messages) = messages else { return std::future::pending().await };
    let mut ticks = interval(ROUND);
    loop {
        ticks.tick().await;
        messages.flush();
    }
}

fn refuse_obstacles(support: &KernelSupport, attach: Attach) -> anyhow::Result<()> {
    let obstacles = plan::obstacles(support, attach);
    if obstacles.is_empty() {
        return Ok(());
    }
    bail!("cannot run here: {}\n`gt-daemon doctor` tells more", obstacles.join("\n  and: "));
}

/// Attaches every question's hooks and checks that they see; returns whether RSTs without a socket are seen.
fn attach(
    probes: &mut Probes,
    support: &KernelSupport,
    allowed: Attach,
    health: &Health,
) -> anyhow::Result<bool> {
    for Choice { question, backend, reason } in plan::plan(support, allowed) {
        let Some(backend) = backend else { bail!("no hook for {}: {reason}", question.name()) };
        let other = backend.other();
        let hooks = plan::hooks(support, question, backend);
        if let Err(error) = probes.attach(question, backend, &hooks) {
            if !allowed.allows(other) || plan::serves(support, question, other).is_err() {
                return Err(error.into());
            }
            warn!(hook = question.name(), backend = backend.name(), %error, "refused; using the other backend");
            probes.attach(question, other, &plan::hooks(support, question, other))?;
        }
    }
    if !can_check(support) {
        let fault = format!(
            "attached but not checked: without {} and {} the self-check cannot make its network namespace",
            capability::SYS_ADMIN.name,
            capability::NET_ADMIN.name
        );
        for question in Question::ALL {
            let backend = probes.attached().get(&question).copied();
            health.hook(question, backend, Some(fault.clone()));
        }
        error!("not ready: hooks {fault}");
        return Ok(plan::sees_reset_without_socket(
            support,
            probes.attached().get(&Question::RstSent).copied(),
        ));
    }
    check(probes, support, allowed, health)
}

fn can_check(support: &KernelSupport) -> bool {
    support
        .capabilities
        .or_else(Capabilities::current)
        .is_none_or(|held| held.holds(capability::SYS_ADMIN) && held.holds(capability::NET_ADMIN))
}

/// The self-check; a hook that missed its part is replaced by the other backend once, else reported.
fn check(
    probes: &mut Probes,
    support: &KernelSupport,
    allowed: Attach,
    health: &Health,
) -> anyhow::Result<bool> {
    let expectation = |probes: &Probes| Expectation {
        no_socket: plan::sees_reset_without_socket(
            support,
            probes.attached().get(&Question::RstSent).copied(),
        ),
        ipv6: support.ipv6,
    };
    let mut missed = self_check(&probes.maps(), expectation(probes))?;
    let mut replaced = false;
    for question in Question::ALL {
        let Some(fault) = fault(&missed, question) else { continue };
        let Some(backend) = probes.attached().get(&question).copied() else { continue };
        let other = backend.other();
        if allowed.allows(other) && plan::serves(support, question, other).is_ok() {
            warn!(
                hook = question.name(),
                backend = backend.name(),
                fault,
                "self-check failed; using the other"
            );
            match probes.attach(question, other, &plan::hooks(support, question, other)) {
                Ok(()) => replaced = true,
                Err(error) => error!(hook = question.name(), backend = other.name(), %error, "refused"),
            }
        }
    }
    if replaced {
        missed = self_check(&probes.maps(), expectation(probes))?;
    }
    for question in Question::ALL {
        let backend = probes.attached().get(&question).copied();
        let fault = match backend {
            None => Some("no backend could be attached".to_owned()),
            Some(_) => fault(&missed, question),
        };
        match &fault {
            None => info!(
                hook = question.name(),
                backend = backend.map_or("none", plan::Backend::name),
                "attached and checked"
            ),
            Some(fault) => error!(hook = question.name(), fault, "self-check failed: not ready"),
        }
        health.hook(question, backend, fault);
    }
    Ok(expectation(probes).no_socket)
}

/// What a question's hooks missed, in words.
fn fault(missed: &[Missed], question: Question) -> Option<String> {
    let parts: Vec<_> = missed
        .iter()
        .filter(|miss| miss.question == question)
        .map(|miss| format!("{} seen {} of {} times in the self-check", miss.part, miss.seen, miss.expected))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Reads pods again and again, and checks the table now and then.
async fn watch(tracker: Tracker, health: Arc<Health>) {
    let mut ticks = interval(ROUND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_fault = None;
    let mut next_check = Instant::now() + CHECK;
    loop {
        ticks.tick().await;
        // File system calls on a busy node may take long; they must not hold up the other tasks.
        let fault = tokio::task::block_in_place(|| tracker.round(Instant::now()))
            .err()
            .map(|error| error.to_string());
        if fault != last_fault {
            match &fault {
                Some(fault) => error!(source = tracker.source.name(), "pods unknown: {fault}"),
                None => info!(source = tracker.source.name(), "pods are read"),
            }
        }
        health.source(tracker.source.name(), fault.clone());
        last_fault = fault;
        if Instant::now() >= next_check {
            match tokio::task::block_in_place(|| tracker.reconcile_all()) {
                Ok(0) => {}
                Ok(corrected) => {
                    health.corrected(corrected);
                    warn!(corrected, "connections had ended without a hook telling");
                }
                Err(error) => error!(%error, "the table of connections is not checked"),
            }
            next_check = Instant::now() + CHECK;
        }
    }
}

/// Shows each event in the log: cuts that are proved at info level, the rest at debug level.
async fn observe(events: Events, owners: Arc<Owners>, health: Arc<Health>, hz: u32) -> std::io::Result<()> {
    events
        .forward(|event| match event {
            Ok(observed) => tell(&observed, &owners, hz),
            Err(error) => {
                health.undecodable();
                warn!(%error, "the ring buffer holds something that is no event");
            }
        })
        .await
}

fn tell(observed: &Observed, owners: &Owners, hz: u32) {
    let Observed { time_ns, what, slot, lane, local, remote, first, connection, .. } = observed;
    let cut = *first && connection.is_some_and(|known| known.evidence == Evidence::Socket);
    if !cut && !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let owner = owners.by_slot(*slot);
    let pod = owner.as_ref().map(|owner| owner.pod.as_str());
    match connection {
        Some(known) if *first => {
            let age = |then: u64| time_ns.saturating_sub(then) / 1000;
            let read_us = known.read_ns.map(age);
            let sent_ms = u64::from(known.since_sent) * 1000 / u64::from(hz.max(1));
            let Known { how, phase, evidence, protocol, hc, unread, unsent, unacked, received, sent, .. } =
                known;
            if cut {
                info!(
                    pod, ?how, ?phase, ?hc, %local, %remote, read_us, sent_ms, unread, unsent, unacked, received,
                    sent, "cut: a connection ended with a request in flight"
                );
            } else {
                debug!(
                    pod, ?how, ?phase, ?evidence, ?lane, ?protocol, ?hc, %local, %remote, read_us, sent_ms,
                    unread, unsent, unacked, received, sent, "teardown"
                );
            }
        }
        _ => debug!(pod, ?what, ?lane, %local, %remote, time_ns, "event"),
    }
}
