//! `gt-daemon run`: take the port, load, attach, check, watch, serve; on a signal let go of everything.

mod attach;
mod check;
mod log;
mod records;

use std::{
    collections::BTreeMap,
    fs::File,
    path::Path,
    process::ExitCode,
    sync::{Arc, Mutex, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use aya_log::EbpfLogger;
use gt_common::{config::Config, connection::Limits};
use prometheus_client::registry::Registry;
use tokio::{
    runtime::Handle,
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};
use tracing::{error, info};

use self::check::Pace;
use crate::{
    api::{doors::Doors, routes},
    cli::RunOptions,
    correlate::Joins,
    drain::{ledger::Ledger, store::Store, writer::Writer},
    heap,
    http::{self, Views},
    kernel::{
        cgroup::{Cgroups, Mode},
        plan::{self, Attach},
        support::KernelSupport,
    },
    lb::webhook,
    metrics::{Health, Traffic, registry},
    observe::{self, Board, Feed, Kernel, Observer, Parts},
    open_files,
    pods::{
        Class,
        netns::Netns,
        owners::Owners,
        tracker::{Settings, Tracker},
        wake::Sleeper,
    },
    probes::{LoadOptions, Probes, events::Events, object_digest},
};

/// Threads for all tasks: one for a scrape, one for the rest. A thread for each CPU, with an arena of the heap for each,
/// would make the daemon larger on larger nodes, where it has no more to do.
const WORKERS: usize = 2;

/// How often pods are read, when nothing wakes the reader before.
const ROUND: Duration = Duration::from_millis(500);

/// How often while a new pod's first process is waited for.
const WAITING_ROUND: Duration = Duration::from_millis(150);

/// How often at most: what comes in a burst is one reading.
const SHORTEST_ROUND: Duration = Duration::from_millis(50);

/// An answer that was sent within this time of reading the request is a prompt one, not a stream.
const PROMPT_ANSWER: Duration = Duration::from_millis(250);

/// Acknowledgements may be delayed by 200 ms (`TCP_DELACK_MAX`, include/net/tcp.h).
const ACK_DELAY: Duration = Duration::from_millis(250);

/// What is said when the host's network namespace cannot be told from the pods'.
pub(crate) const HOST_NETNS: &str = "cannot read the host's network namespace (/proc/1/ns/net): run as root with \
                                     CAP_SYS_PTRACE, in the host's pid namespace";

/// Runs until SIGTERM or SIGINT.
pub fn run(options: RunOptions) -> anyhow::Result<ExitCode> {
    heap::keep_small();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(WORKERS).enable_all().build().context(
        "cannot start the daemon's threads; is the process or memory limit of this machine reached?",
    )?;
    let outcome = runtime.block_on(daemon(options));
    // Scrapes under way may take as long as this, not longer: a clean stop takes less than a second.
    runtime.shutdown_timeout(Duration::from_millis(300));
    outcome
}

async fn daemon(options: RunOptions) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    // Ports and the socket are taken before anything is in the kernel.
    let listener = http::listen(options.listen).await?;
    let doors = Doors::open(&options.door).await?;
    let lb_listener = match options.lb.lb_webhook {
        Some(address) => Some(http::listen_for(address, "--lb-webhook").await?),
        None => None,
    };
    let runtime = Handle::current();
    let start = tokio::task::spawn_blocking(move || start(&options, &runtime));
    let Started {
        tracker,
        sleeper,
        events,
        messages,
        registry,
        health,
        board,
        owners,
        observer,
        feed,
        views,
        // Until the last record is written.
        claim: _claim,
    } = tokio::select! {
        started = start => started.context("the start was given up")??,
        _ = terminate.recv() => return Ok(stopped("SIGTERM")),
        _ = interrupt.recv() => return Ok(stopped("SIGINT")),
    };
    info!(address = %listener.local_addr()?, "serving /metrics, /healthz and /readyz");
    // Each on a task or thread of its own: a file system that hangs must not hold up scrapes or the stop.
    let (watcher, told) = (Arc::clone(&health), Arc::clone(&board));
    thread::Builder::new()
        .name("pods".to_owned())
        .spawn(move || watch(tracker, &sleeper, &watcher, &told))
        .context("cannot start the thread that reads pods")?;
    let shown = Views { registry: Arc::new(registry), health: Arc::clone(&health), length: Arc::default() };
    let server = tokio::spawn(http::serve(listener, shown));
    let consoles = tokio::spawn(doors.serve(routes::router(views)));
    let ring = tokio::spawn(log::observe(events, owners, board, feed));
    if let Some(listener) = lb_listener {
        info!(address = %listener.local_addr()?, "POST /lb takes words of load balancers");
        tokio::spawn(axum::serve(listener, webhook::router(observer.lb_door())).into_future());
    }
    let (stop, stopping) = oneshot::channel();
    let mut observer = tokio::spawn(observer.run(stopping));
    tokio::spawn(log::show(messages));
    let signal = tokio::select! {
        served = server => served?.context("the HTTP server ended").map(|()| None)?,
        served = consoles => served?.context("the server for consoles ended").map(|()| None)?,
        read = ring => read?.context("cannot read the kernel's events").map(|()| None)?,
        observed = &mut observer => observed.context("the observer of pods ended").map(|()| None)?,
        _ = terminate.recv() => Some("SIGTERM"),
        _ = interrupt.recv() => Some("SIGINT"),
    };
    if let Some(signal) = signal {
        drop(stop);
        observer.await.context("the observer of pods ended")?;
        return Ok(stopped(signal));
    }
    bail!("the daemon ended without being told to: this is a fault in gt, please report it")
}

/// The process ends now, and with it every hook: the kernel detaches what no process holds.
fn stopped(signal: &str) -> ExitCode {
    info!("{signal}: stopping");
    ExitCode::SUCCESS
}

/// What runs once the hooks are attached.
struct Started {
    tracker: Tracker,
    /// Woken when there is news of pods.
    sleeper: Sleeper,
    events: Events,
    messages: Option<EbpfLogger<&'static dyn ::log::Log>>,
    registry: Registry,
    health: Arc<Health>,
    board: Arc<Board>,
    owners: Arc<Owners>,
    observer: Observer,
    feed: Feed,
    /// What consoles see.
    views: routes::Views,
    /// Holds the directory of records.
    claim: Option<File>,
}

fn start(options: &RunOptions, runtime: &Handle) -> anyhow::Result<Started> {
    // Whatever the environment gets wrong is told before anything is in the kernel.
    open_files::raise()?;
    let support = heap::apart(KernelSupport::probe);
    refuse_obstacles(&support, options.kernel.attach)?;
    let cgroups = Cgroups::probe(&options.kernel.cgroup_root)?;
    let sleeper = Sleeper::new().context("cannot open the file that wakes the thread of pods")?;
    let ledger = Arc::new(Ledger::new(options.drains.drains));
    let (writer, claim) = writer(options, &ledger)?.unzip();
    let source = options.pods.order().open(runtime, sleeper.waker())?;
    let host_netns = Netns::host(Path::new("/proc")).context(HOST_NETNS)?;

    let debug = tracing::enabled!(target: "gt", tracing::Level::DEBUG);
    let load = LoadOptions {
        layout: support.layout.clone().map_err(anyhow::Error::msg)?,
        config: config(&support, &cgroups, host_netns.inode(), options.stream_window),
        slots: options.slots,
        connections: options.connections,
        debug,
    };
    let (mut probes, events) = heap::apart(|| Probes::load(&load))?;
    let maps = probes.maps();
    let health = Arc::new(Health::new(Arc::clone(&maps), object_digest()));
    let sees_no_socket = attach::attach(&mut probes, &support, options.kernel.attach, &health)?;
    probes.load_iterator()?;
    if counts_skipped_runs(&support, &probes) {
        health.watch_programs(probes.attached_programs()?);
    }
    probes.forget_types();
    heap::release();
    let messages = if debug { probes.messages().ok() } else { None };

    let owners = Arc::new(Owners::default());
    let settings = Settings {
        source,
        ports: ports(options),
        state_events: options.state_events,
        cgroups,
        proc: "/proc".into(),
        host_netns,
        retain: options.retain,
    };
    let probes = Arc::new(Mutex::new(probes));
    let tracker = Tracker::new(settings, Arc::clone(&owners), Arc::clone(&maps), probes);
    let parts = Parts {
        owners: Arc::clone(&owners),
        kernel: Arc::clone(&maps) as Arc<dyn Kernel>,
        joins: Arc::new(Mutex::new(Joins::new(support.hz))),
        board: Arc::default(),
        ledger: Arc::clone(&ledger),
        writer,
        hz: support.hz,
    };
    // Before the pod is forgotten, so that the verdict is there for a scrape.
    let lb = options.lb.settings(options.pods.node_name.as_deref());
    let node = options.pods.order().surroundings.node().ok();
    let settings = observe::Settings {
        lb,
        patience: options.retain / 2,
        node: node.clone(),
        streams: options.door.streams,
        ..options.readers.settings()
    };
    let (board, joins) = (Arc::clone(&parts.board), Arc::clone(&parts.joins));
    let (observer, feed) = Observer::new(settings, parts)
        .context("cannot prepare to read inside pods; is the process limit of this machine reached?")?;
    let views = routes::Views { desk: observer.desk(), ledger: Arc::clone(&ledger), node };
    let traffic = Traffic { owners: Arc::clone(&owners), maps, joins, sees_no_socket };
    let registry = registry(traffic, Arc::clone(&board), ledger, Arc::clone(&health));
    Ok(Started {
        tracker,
        sleeper,
        events,
        messages,
        registry,
        health,
        board,
        owners,
        observer,
        feed,
        views,
        claim,
    })
}

/// What writes records of drains to files, when that is wanted.
/// The file holds the directory for this daemon.
fn writer(options: &RunOptions, ledger: &Ledger) -> anyhow::Result<Option<(Writer, File)>> {
    let Some(dir) = &options.drains.record else { return Ok(None) };
    let claim = records::claim(dir)?;
    let store = Store::open(dir.clone(), options.drains.record_keep)?;
    let writer = Writer::start(store, ledger.unwritten_count()).context(
        "cannot start the thread that writes records; is the process limit of this machine reached?",
    )?;
    Ok(Some((writer, claim)))
}

/// Whether the kernel counts the runs it skips: of tracepoints since 5.12, of kprobes since 6.7.
fn counts_skipped_runs(support: &KernelSupport, probes: &Probes) -> bool {
    let by_kprobes = probes.attached().values().any(|backend| *backend == plan::Backend::Kprobe);
    !by_kprobes || support.version.is_some_and(|version| version >= (6, 7))
}

/// What the kernel programs are told before they load.
fn config(support: &KernelSupport, cgroups: &Cgroups, host_netns: u32, stream_window: Duration) -> Config {
    let ticks = |time: Duration| {
        u32::try_from(time.as_millis().saturating_mul(u128::from(support.hz)) / 1000).unwrap_or(u32::MAX)
    };
    Config {
        host_netns,
        cgroup_owner: u32::from(cgroups.mode == Mode::Unified),
        limits: Limits {
            stream_window: ticks(stream_window),
            prompt_answer: ticks(PROMPT_ANSWER),
            ack_delay: ticks(ACK_DELAY),
        },
        // Where BTF does not tell, the reset is doubted, as on kernels that give no packet.
        reset_has_packet: u32::from(support.reset_has_packet == Some(true)),
        knows_syscall: u32::from(support.knows_syscall == Some(true)),
    }
}

fn ports(options: &RunOptions) -> Vec<(u16, Class)> {
    let health = options.health_ports.iter().map(|port| (*port, Class::Health));
    let admin = options.admin_ports.iter().map(|port| (*port, Class::Admin));
    health.chain(admin).collect()
}

fn refuse_obstacles(support: &KernelSupport, attach: Attach) -> anyhow::Result<()> {
    let obstacles = plan::obstacles(support, attach);
    if obstacles.is_empty() {
        return Ok(());
    }
    bail!("cannot run here: {}\n`gt-daemon doctor` tells more", obstacles.join("\n  and: "));
}

/// Reads pods again and again, and checks the table now and then; on a thread of its own.
fn watch(mut tracker: Tracker, sleeper: &Sleeper, health: &Health, board: &Board) {
    let mut last: BTreeMap<&'static str, Option<String>> = BTreeMap::new();
    let mut check = Pace::new(Instant::now());
    loop {
        let asked = tracker.round(Instant::now());
        let asked: BTreeMap<_, _> = asked.into_iter().map(|place| (place.name, place.fault)).collect();
        tell_sources(&last, &asked, tracker.watched());
        health.sources(asked.clone());
        last = asked;
        let skipped = health.missed_runs();
        if let Some(skipped) = skipped {
            board.skipped_runs.store(skipped, Ordering::Relaxed);
        }
        let missed =
            skipped.zip(health.without_place()).map(|(skipped, without_place)| skipped + without_place);
        check.go_on(&mut tracker, health, missed);
        let longest = if tracker.is_waiting(Instant::now()) { WAITING_ROUND } else { ROUND };
        sleep(&mut tracker, sleeper, longest);
    }
}

/// Sleeps for `longest`, until a waker calls or a pod's cgroups change. Cgroups of others that come and go are no
/// reason for a round, which looks at all pods.
fn sleep(tracker: &mut Tracker, sleeper: &Sleeper, longest: Duration) {
    let end = Instant::now() + longest;
    loop {
        let most = end.saturating_duration_since(Instant::now());
        let called = sleeper.sleep(SHORTEST_ROUND, most, tracker.cgroup_changes());
        let now = Instant::now();
        if tracker.follow_cgroups(now) || called || now >= end {
            return;
        }
    }
}

/// Tells in the log what has changed with the places that pods are read from.
fn tell_sources(
    last: &BTreeMap<&'static str, Option<String>>,
    now: &BTreeMap<&'static str, Option<String>>,
    pods: usize,
) {
    for (source, fault) in now.iter().filter(|(source, fault)| last.get(*source) != Some(fault)) {
        match fault {
            Some(fault) => error!(source, "no news of pods, those known before stay: {fault}"),
            None => info!(source, pods, "pods are read"),
        }
    }
    for source in last.keys().filter(|source| !now.contains_key(*source)) {
        info!(source, "no longer needed");
    }
}
