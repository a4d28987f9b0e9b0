//! Start and stop: nothing is left in the kernel, and every hook is shown.

use std::{collections::BTreeSet, fs, sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use xtask::sandbox::eventually;

use crate::{
    Case, Skip,
    daemon::{Backend, Daemon, Shared, doctor, get},
    scene::{Family, Scene},
};

pub fn cases(backend: Backend, skip: Option<&String>) -> Vec<Case> {
    let skip: Skip = skip.cloned();
    let name = |test: &str| format!("{}::life::{test}", backend.name());
    vec![
        Case::new(name("stops_cleanly"), skip.clone(), move || stops_cleanly(backend)),
        Case::new(name("shows_itself"), skip.clone(), move || shows_itself(backend)),
        Case::new(name("a_fifo_holds_nothing_up"), skip.clone(), move || fifo(backend)),
        Case::new(name("state_changes_as_events"), skip.clone(), move || state_events(backend)),
        Case::new(name("a_log_that_cannot_be_written"), skip, move || full_log(backend)),
    ]
}

/// Ids of the programs a process holds.
fn programs(pid: u32) -> Result<BTreeSet<u32>> {
    let mut ids = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        let info = fs::read_to_string(entry?.path()).unwrap_or_default();
        ids.extend(info.lines().filter_map(|line| line.strip_prefix("prog_id:")?.trim().parse::<u32>().ok()));
    }
    Ok(ids)
}

/// Ids of all programs in the kernel.
fn loaded() -> BTreeSet<u32> {
    aya::programs::loaded_programs().flatten().map(|program| program.id()).collect()
}

/// SIGTERM ends the daemon within a second and takes its hooks out of the kernel.
fn stops_cleanly(backend: Backend) -> Result<()> {
    let mut daemon = Daemon::start(&["--pods", "static:/dev/null", "--attach", backend.name()])?;
    let ours = programs(daemon.id())?;
    ensure!(ours.len() >= 3 && ours.is_subset(&loaded()), "too few programs in the kernel: {ours:?}");
    let took = daemon.terminate()?;
    // Emulated machines are slow; the promise is for real ones, and a hang is a fault on any.
    let limit = if std::env::var_os("GT_ENVIRONMENT").is_some() { 10 } else { 1 };
    ensure!(took < Duration::from_secs(limit), "the daemon took {took:?} to end");
    eventually("the programs to go", Duration::from_secs(5), || ours.is_disjoint(&loaded()).then_some(()))
}

/// Each hook is shown with its backend, the build with the digest that `doctor` tells.
fn shows_itself(backend: Backend) -> Result<()> {
    let daemon = Daemon::start(&["--pods", "static:/dev/null", "--attach", backend.name()])?;
    let metrics = daemon.metrics()?;
    for hook in ["state_change", "rst_sent", "rst_received"] {
        let value = metrics.sum("gt_hook_attached", &[("hook", hook), ("backend", backend.name())]);
        ensure!(value == Some(1), "hook {hook}: {value:?}");
    }
    for place in ["ring", "kernel_read", "decode"] {
        let lost = metrics.sum("gt_events_lost_total", &[("where", place)]);
        ensure!(lost == Some(0), "lost at {place}: {lost:?}");
    }
    let report = doctor(backend)?;
    let digest = report["ebpf_sha256"].as_str().unwrap_or_default().to_owned();
    ensure!(digest.len() == 64, "doctor tells no digest");
    ensure!(
        metrics.sum("gt_build_info", &[("ebpf_sha256", &digest)]) == Some(1),
        "another digest than doctor's"
    );
    ensure!(get(daemon.address, "/healthz")?.0 == 200, "not healthy");
    Ok(())
}

/// A pods file that names a FIFO as a namespace: scrapes and the stop go on.
fn fifo(backend: Backend) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let pipe = directory.path().join("fifo");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR)?;
    let file = directory.path().join("pods.toml");
    fs::write(&file, format!("[[pod]]\nnamespace='a'\nname='b'\nnetns='{}'\n", pipe.display()))?;
    let pods = format!("static:{}", file.display());
    let mut daemon = Daemon::start(&["--pods", &pods, "--attach", backend.name()])?;
    std::thread::sleep(Duration::from_millis(700));
    ensure!(daemon.metrics()?.sum("gt_pods", &[("state", "unattributed")]) == Some(1), "the pod is not told");
    let took = daemon.terminate()?;
    ensure!(took < Duration::from_secs(10), "the daemon took {took:?} to end");
    Ok(())
}

/// A full disk under the log: the daemon goes on.
fn full_log(backend: Backend) -> Result<()> {
    let mut command = std::process::Command::new(crate::daemon::binary());
    let full = fs::File::options().write(true).open("/dev/full")?;
    command.args(crate::daemon::run("static:/dev/null"));
    command.args(["--attach", backend.name()]).stderr(full);
    let mut process = xtask::sandbox::Process::start("gt-daemon", &mut command)?;
    ensure!(process.wait(Duration::from_secs(3))?.is_none(), "the daemon has ended");
    process.signal(nix::sys::signal::Signal::SIGTERM)?;
    let status = process.wait(Duration::from_secs(10))?;
    ensure!(status.is_some_and(|status| status.success()), "{status:?}");
    Ok(())
}

/// State changes are events where they are wanted, and only there: from SYN_RECV (3) to ESTABLISHED (1), to
/// CLOSE_WAIT (8) as the teardown, to LAST_ACK (9), to CLOSE (7).
fn state_events(backend: Backend) -> Result<()> {
    let wanted = Arc::new(Shared::start(backend, &["--state-events"])?);
    for (daemon, expected) in [(wanted, true), (Shared::of(backend)?, false)] {
        let scene = Scene::new(&daemon, Family::V4)?;
        let listener = scene.listen_in_pod()?;
        let peer = scene.dial_pod(listener.local_addr()?.port())??;
        let pod = crate::conversation::accept(&listener)?;
        drop(peer);
        crate::conversation::ended(&pod)?;
        drop(pod);
        scene.watched.expect("gt_connections_closed_total", &[], 1)?;
        let log = eventually("the teardown in the log", Duration::from_secs(5), || {
            let log = daemon.daemon.log();
            let changed =
                !expected || ["State(3, 1)", "State(8, 9)", "State(9, 7)"].iter().all(|c| log.contains(c));
            (changed && log.contains("how=FinReceived")).then_some(log)
        })?;
        ensure!(expected || !log.contains("State("), "state changes that nobody wants");
    }
    Ok(())
}
