//! The daemon's own health: hooks, losses, sources, build.

use std::{
    collections::BTreeMap,
    os::fd::{AsRawFd as _, OwnedFd},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{counter::ConstCounter, gauge::ConstGauge, histogram::Histogram},
};

use super::{families, inside};
use crate::{
    drain::ledger::Ledger,
    kernel::plan::{Backend, Question},
    observe::Board,
    pods::tracker::Checked,
    probes::maps::Maps,
};

/// What the daemon knows of itself.
#[derive(Debug)]
pub struct Health {
    maps: Arc<Maps>,
    object_digest: String,
    state: Mutex<State>,
    /// The attached programs, to ask the kernel for runs it has skipped.
    programs: Mutex<Vec<OwnedFd>>,
    /// Entries of the connection table that had ended without a hook telling.
    corrected: AtomicU64,
    /// How long a comparison of the table with the sockets of one network namespace takes, seconds.
    checks: Histogram,
}

/// Bounds of [`Health::checks`]: from a node with few sockets to one with a million.
const CHECK_SECONDS: [f64; 8] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25];

#[derive(Debug, Default)]
struct State {
    hooks: BTreeMap<Question, Hook>,
    sources: BTreeMap<&'static str, Option<String>>,
}

#[derive(Debug)]
struct Hook {
    backend: Option<Backend>,
    fault: Option<String>,
}

impl Health {
    #[must_use]
    pub fn new(maps: Arc<Maps>, object_digest: String) -> Self {
        Self {
            maps,
            object_digest,
            state: Mutex::default(),
            corrected: AtomicU64::new(0),
            checks: Histogram::new(CHECK_SECONDS),
            programs: Mutex::default(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which backend answers a question, and what is wrong with it.
    pub fn hook(&self, question: Question, backend: Option<Backend>, fault: Option<String>) {
        self.state().hooks.insert(question, Hook { backend, fault });
    }

    /// The places that pods were read from last time, and what is wrong with each; one that was not asked is not
    /// told of.
    pub fn sources(&self, asked: impl IntoIterator<Item = (&'static str, Option<String>)>) {
        self.state().sources = asked.into_iter().collect();
    }

    /// From now on the kernel is asked how these programs fare.
    pub fn watch_programs(&self, programs: Vec<OwnedFd>) {
        *self.programs.lock().unwrap_or_else(PoisonError::into_inner) = programs;
    }

    /// Runs that the kernel skipped, since the program was already running on that CPU and had been interrupted
    /// (`bpf_prog_active`); `None` where it does not tell, or not of
    /// all programs (see `counts_skipped_runs`).
    #[must_use]
    pub fn missed_runs(&self) -> Option<u64> {
        let programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sum = None;
        for program in programs.iter() {
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd())).ok()?;
            let misses = info.lines().find_map(|line| line.strip_prefix("recursion_misses:"))?;
            sum = Some(sum.unwrap_or(0) + misses.trim().parse::<u64>().ok()?);
        }
        sum
    }

    /// Connections that found no place in the table so far; `None` when that cannot be read.
    #[must_use]
    pub fn without_place(&self) -> Option<u64> {
        self.maps.losses().ok().map(|losses| losses.table_full)
    }

    /// A part of the table was compared with the sockets that are there.
    pub fn checked(&self, checked: &Checked) {
        self.corrected.fetch_add(checked.corrected, Ordering::Relaxed);
        for _ in 0..checked.namespaces {
            self.checks.observe(checked.took.as_secs_f64() / f64::from(checked.namespaces));
        }
    }

    /// What keeps the daemon from being ready, in words; empty when nothing does.
    #[must_use]
    pub fn not_ready(&self) -> Vec<String> {
        let state = self.state();
        let mut reasons = Vec::new();
        for question in Question::ALL {
            match state.hooks.get(&question) {
                None => reasons.push(format!("hook {}: not checked yet", question.name())),
                Some(Hook { fault: Some(fault), .. }) => {
                    reasons.push(format!("hook {}: {fault}", question.name()));
                }
                Some(_) => {}
            }
        }
        if state.sources.is_empty() {
            reasons.push("pods: not read yet".to_owned());
        }
        // With the kubelet's directories in the API's place, pods are known.
        if state.sources.values().all(Option::is_some) {
            let faults = state.sources.iter().filter_map(|(name, fault)| Some((name, fault.as_ref()?)));
            reasons.extend(faults.map(|(name, fault)| format!("source {name}: {fault}")));
        }
        reasons
    }
}

/// [`Health`] as a collector, with what the [`Board`] tells of all pods together.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) health: Arc<Health>,
    pub(super) board: Arc<Board>,
    pub(super) ledger: Arc<Ledger>,
}

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Self { health, board, ledger } = self;
        let losses = health.maps.losses().map_err(|error| {
            tracing::error!(%error, "cannot read the kernel side's losses");
            std::fmt::Error
        })?;
        let mut family = families::EVENTS_LOST.begin(&mut encoder)?;
        for (place, count) in [
            ("ring", losses.ring_full),
            ("kernel_read", losses.kernel_read),
            ("connection_table", losses.table_full),
            ("cut_counters", losses.cuts_full),
            ("decode", board.undecodable.load(Ordering::Relaxed)),
            ("teardown", losses.unjudged),
        ]
        .into_iter()
        .chain(health.missed_runs().map(|missed| ("skipped_run", missed)))
        .chain(board.lost())
        .chain([("record", ledger.unwritten())])
        {
            ConstCounter::new(count).encode(family.encode_family(&[("where", place)])?)?;
        }
        let family = families::CORRECTED.begin(&mut encoder)?;
        ConstCounter::new(health.corrected.load(Ordering::Relaxed)).encode(family)?;
        health.checks.encode(families::CHECK_SECONDS.begin(&mut encoder)?)?;
        let state = health.state();
        let mut family = families::HOOK_ATTACHED.begin(&mut encoder)?;
        for (question, hook) in &state.hooks {
            let backend = hook.backend.map_or("none", Backend::name);
            let works = i64::from(hook.backend.is_some() && hook.fault.is_none());
            ConstGauge::new(works)
                .encode(family.encode_family(&[("hook", question.name()), ("backend", backend)])?)?;
        }
        let mut family = families::SOURCE_UP.begin(&mut encoder)?;
        let of_pods = state.sources.iter().map(|(name, fault)| (*name, fault.is_none()));
        for (name, up) in of_pods.chain(inside::all_up(board)) {
            ConstGauge::new(i64::from(up)).encode(family.encode_family(&[("source", name)])?)?;
        }
        let mut family = families::BUILD.begin(&mut encoder)?;
        family.encode_info(&[("version", env!("CARGO_PKG_VERSION")), ("ebpf_sha256", &health.object_digest)])
    }
}
