//! The daemon suspended: what it did not look at is told, and what the kernel kept for it is counted all the same.

use std::{
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, ensure};
use gt_daemon::{clock::utc_us, drain::fact::stamp};
use nix::sys::signal::Signal;
use xtask::sandbox::eventually;

use super::signal;
use crate::{
    conversations::pair::Pair,
    daemon::{Backend, Shared},
    drains::{Gateway, reach},
    inside::say,
};

/// Longer than a source may be silent, which is five seconds: from then on nothing in gt asks how long it was.
const STOP: Duration = Duration::from_secs(7);

/// What a sidecar says that tells since when.
fn since_now(name: &str) -> String {
    let since = stamp(utc_us(SystemTime::now()));
    format!(r#"{{"state":"{name}","since":"{since}","active":null,"reason":null}}"#)
}

/// Exercises a daemon that is stopped while one pod drains, while the whole drain of another passes, and while a third one's request
/// is cut; and a fourth pod that drains after that. So the first two are not called protected, though the kernel kept every end of
/// theirs, the cut is counted, and the last is as if nothing had been.
pub(super) fn suspended(backend: Backend) -> Result<()> {
    let daemon = Arc::new(Shared::start(backend, &["--retain", "600"])?);
    let gateways = (0..4).map(|_| Gateway::start(&daemon)).collect::<Result<Vec<_>>>()?;
    let [drains, opens, cut, later] = &gateways[..] else { anyhow::bail!("not four") };
    let mut pairs = Vec::new();
    for gateway in &gateways {
        let mut pair = Pair::inbound(&gateway.scene)?;
        pair.request()?;
        if !std::ptr::eq(gateway, cut) {
            pair.answer()?;
        }
        pairs.push(pair);
    }
    reach(std::slice::from_ref(drains), "DRAINING")?;

    signal(&daemon.daemon, Signal::SIGSTOP)?;
    let happened = (|| {
        for name in ["DRAINING", "CLOSING"] {
            [drains, opens, cut].into_iter().for_each(|gateway| say(&gateway.hc, since_now(name)));
            thread::sleep(STOP / 2);
        }
        let of_later = pairs.pop().context("no connection")?;
        for pair in pairs {
            drop(pair.peer_close()?);
        }
        [drains, opens].into_iter().for_each(|gateway| say(&gateway.hc, since_now("CLOSED")));
        anyhow::Ok(of_later)
    })();
    signal(&daemon.daemon, Signal::SIGCONT)?;
    let of_later = happened?;
    for (gateway, name) in [(drains, "CLOSED"), (opens, "CLOSED"), (cut, "CLOSING")] {
        gateway.is_seen(name)?;
    }
    let by_the_lb = [("evidence", "socket"), ("cause", "lb_flush"), ("hc_state", "CLOSING")];
    cut.scene.watched.expect("gt_inflight_cuts_total", &by_the_lb, 1)?;
    say(&cut.hc, since_now("CLOSED"));
    cut.is_seen("CLOSED")?;
    cut.scene.watched.expect("gt_inflight_cuts_total", &[("evidence", "socket")], 1)?;
    for gateway in [drains, opens, cut] {
        gateway.scene.watched.expect("gt_connections_closed_total", &[("class", "data")], 1)?;
    }
    let lost = daemon.daemon.metrics()?.sum("gt_events_lost_total", &[("where", "ring")]);
    ensure!(lost == Some(0), "{lost:?} lost, and the ring had room");
    ensure!(daemon.daemon.log().contains("gt did not run"), "{}", daemon.daemon.log());

    for name in ["DRAINING", "CLOSING"] {
        say(&later.hc, since_now(name));
        later.is_seen(name)?;
    }
    drop(of_later.peer_close()?);
    say(&later.hc, since_now("CLOSED"));
    later.is_seen("CLOSED")?;
    let mut namespaces = Vec::new();
    let mut names = Vec::new();
    for gateway in gateways {
        let scene = gateway.scene;
        names.push(scene.watched.name.clone());
        namespaces.push((scene.pod, scene.peer));
    }
    for (name, verdict) in names.iter().zip(["inconclusive", "inconclusive", "broken", "protected"]) {
        eventually("the verdict", Duration::from_secs(120), || {
            (daemon.daemon.metrics().ok()?.sum("gt_drains_total", &[("pod", name)])? == 1).then_some(())
        })
        .with_context(|| daemon.daemon.log())?;
        let is_so = daemon.daemon.metrics()?.sum("gt_drains_total", &[("pod", name), ("verdict", verdict)]);
        ensure!(is_so == Some(1), "{name} is not {verdict}:\n{}", daemon.daemon.log());
    }
    let log = daemon.daemon.log();
    let over = |name: &str| log.lines().find(|line| line.contains("drain over") && line.contains(name));
    for name in &names[..2] {
        ensure!(over(name).is_some_and(|line| line.contains("gt itself did not run")), "{:?}", over(name));
    }
    Ok(())
}
