//! UTC set while a pod drains. Only in a guest: the clock of the machine that runs the tests is nobody's to set.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result, ensure};
use nix::{
    sys::time::{TimeSpec, TimeValLike as _},
    time::{ClockId, clock_gettime, clock_settime},
};
use xtask::sandbox::{eventually, is_emulated};

use crate::{
    conversations::pair::Pair,
    daemon::{Backend, Shared},
    drains::{Gateway, reach},
    inside::{HC, Says, say, serve, state},
    scene::{Family, Scene},
};

/// Why the clock may not be set here. A variable of the environment alone is no proof: the guest's root is its initramfs, which no
/// machine that people use has.
pub(super) fn unsettable() -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let is_initramfs = mounts.lines().any(|line| line.split(' ').skip(1).take(2).eq(["/", "rootfs"]));
    (!is_emulated() || !is_initramfs)
        .then(|| "it would set the clock of this machine: a guest is for it".to_owned())
}

/// Sets UTC by so many seconds.
fn set_by(seconds: i64) -> Result<()> {
    let clock = ClockId::CLOCK_REALTIME;
    let now = clock_gettime(clock)?;
    clock_settime(clock, now + TimeSpec::seconds(seconds)).context("cannot set the clock")
}

/// The clock as it was, whatever became of the test.
struct Hour;

impl Drop for Hour {
    fn drop(&mut self) {
        if let Err(error) = set_by(3_600) {
            eprintln!("the clock stays an hour behind: {error:#}");
        }
    }
}

/// Exercises a clock that is set back by an hour while a pod drains and one of its requests is cut after that: what was seen of the drain
/// by then is told as inconclusive, for this cause, the sidecar is known anew, and the cut is counted. Unit tests have the rest of the
/// drain, and a clock that is set forward.
pub(super) fn set(backend: Backend) -> Result<()> {
    let daemon = Shared::of(backend)?;
    let scene = Scene::with(&daemon, Family::V4, &format!("hc_port = {HC}"))?;
    let gateway = Gateway { scene, hc: Says::default() };
    // Not OPEN before: a sidecar that is slow to answer, as in a guest, is then asked every few minutes.
    say(&gateway.hc, state("DRAINING"));
    serve(&gateway.scene.pod, HC, &gateway.hc)?;
    gateway.is_seen("DRAINING")?;
    let watched = &gateway.scene.watched;
    let mut pair = Pair::inbound(&gateway.scene)?;
    pair.request()?;
    set_by(-3_600)?;
    let _at_last = Hour;
    let verdict = |verdict| watched.count("gt_drains_total", &[("verdict", verdict)]);
    eventually("the record up to then", Duration::from_secs(60), || {
        (verdict("inconclusive").ok()? == 1).then_some(())
    })
    .with_context(|| daemon.daemon.log())?;
    ensure!(verdict("protected")? == 0 && verdict("broken")? == 0);
    let log = daemon.daemon.log();
    let is_told = |line: &str| {
        line.contains("drain over")
            && line.contains(&watched.name)
            && line.contains("the clock was set back by 3600.0 s")
    };
    ensure!(
        log.lines().any(is_told) && log.contains("gt_daemon::observe::task::clocks: the clock was set"),
        "{log}"
    );
    reach(std::slice::from_ref(&gateway), "CLOSING")?;
    drop(pair.peer_close()?);
    watched.expect("gt_inflight_cuts_total", &[("evidence", "socket")], 1)
}
