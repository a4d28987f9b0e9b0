//! Tests on a running kernel: real sockets in namespaces of their own, the real daemon, tcpdump as the judge.
//!
//! The same binary runs on the developer's machine and in VMs. Each test that needs an attached daemon comes
//! once per backend; one that cannot run here says why and is listed as ignored.

mod alarms;
mod cgroups;
mod child;
mod churn;
mod containerd;
mod conversation;
mod conversations;
mod daemon;
mod drains;
mod families;
mod faults;
mod input;
mod inside;
mod life;
mod mixups;
mod own;
mod owners;
mod rst;
mod scene;
mod table;
mod trace;
mod turnover;
mod wire;

use std::{
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use libtest_mimic::{Arguments, Failed, Trial};

use crate::daemon::Backend;

/// Why a test cannot run here; `None` when it can.
type Skip = Option<String>;

/// A test of this suite before it becomes a trial.
struct Case {
    name: String,
    skip: Skip,
    run: Box<dyn Fn() -> anyhow::Result<()> + Send>,
}

impl Case {
    fn new(
        name: impl Into<String>,
        skip: Skip,
        run: impl Fn() -> anyhow::Result<()> + Send + 'static,
    ) -> Self {
        Self { name: name.into(), skip, run: Box::new(run) }
    }
}

/// Namespaces, the pods file and the shared daemons are one per machine: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

/// How many tests of one run may be played a second time.
static SECOND_CHANCES: AtomicU32 = AtomicU32::new(3);

/// Plays a test of an attached daemon, and once more when it fails.
///
/// The kernel skips a run of a program when it has just interrupted that program on the same CPU (docs/kernels.md): the
/// daemon says so, where the kernel counts it, and the exact counts of a test are then off by that run. It is
/// rare; a fault of gt is not, and so fails twice, or in more tests than there are second chances.
fn played(name: &str, run: &dyn Fn() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let Err(error) = run() else { return Ok(()) };
    let attaches = Backend::ALL.iter().any(|backend| name.starts_with(&format!("{}::", backend.name())));
    let take = |left: u32| left.checked_sub(1);
    if !attaches || SECOND_CHANCES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
        return Err(error);
    }
    println!("played again: {name}: {error:#}");
    run()
}

fn main() -> ExitCode {
    if child::is_one() {
        return child::run();
    }
    let arguments = Arguments::from_args();
    let mut cases = Vec::new();
    let unfit = daemon::unfit();
    cases.extend(input::cases(unfit.as_ref()));
    cases.extend(cgroups::cases(unfit.as_ref()));
    cases.push(drains::disk(unfit.as_ref()));
    cases.extend(containerd::cases(unfit.as_ref()));
    for backend in Backend::ALL {
        let skip = unfit.clone().or_else(|| backend.unavailable());
        cases.extend(rst::cases(backend, skip.as_ref()));
        cases.extend(owners::cases(backend, skip.as_ref()));
        cases.extend(life::cases(backend, skip.as_ref()));
        cases.extend(inside::cases(backend, skip.as_ref()));
        cases.extend(drains::cases(backend, skip.as_ref()));
        cases.extend(faults::cases(backend, skip.as_ref()));
        cases.extend(mixups::cases(backend, skip.as_ref()));
        cases.extend(conversations::cases(backend, skip.as_ref()));
        cases.extend(churn::cases(backend, skip.as_ref()));
        cases.extend(own::cases(backend, skip.as_ref()));
        cases.extend(table::cases(backend, skip.as_ref()));
        cases.extend(alarms::cases(backend, skip.as_ref()));
        cases.extend(turnover::cases(backend, skip.as_ref()));
        cases.extend(trace::cases(backend, skip.as_ref()));
    }
    let is_asked = |name: &str| {
        arguments.filter.as_ref().is_none_or(|filter| name.contains(filter))
            && !arguments.skip.iter().any(|skip| name.contains(skip))
    };
    let trials = cases
        .into_iter()
        .map(|Case { name, skip, run }| {
            if let Some(reason) = skip.as_ref().filter(|_| is_asked(&name)) {
                println!("skipped: {name}: {reason}");
            }
            let told = name.clone();
            Trial::test(name, move || {
                let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
                played(&told, &run).map_err(|error| Failed::from(format!("{error:#}")))
            })
            .with_ignored_flag(skip.is_some())
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    conversations::leave_stage();
    daemon::stop_all();
    conclusion.exit_code()
}
