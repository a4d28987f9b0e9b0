//! Drains of a real Envoy.

use std::{path::PathBuf, sync::OnceLock, thread, time::Duration};

use anyhow::{Context as _, anyhow, ensure};
use nix::sys::signal::Signal;
use xtask::{sandbox::eventually, setup};

use crate::{
    Case,
    real_envoy::{Config, RealEnvoy},
    sidecar::{SOON, Sidecar, stays},
};

/// The binary, if there is one; looked for once. A wrong GT_ENVOY is an error of each test.
static ENVOY: OnceLock<Result<Option<PathBuf>, String>> = OnceLock::new();

fn binary() -> &'static Result<Option<PathBuf>, String> {
    ENVOY.get_or_init(|| setup::envoy::found().map_err(|error| format!("{error:#}")))
}

fn envoy(config: Config) -> anyhow::Result<RealEnvoy> {
    let binary = binary().as_ref().map_err(|error| anyhow!("{error}"))?;
    RealEnvoy::start(binary.as_deref().context("no Envoy")?, config)
}

pub fn cases() -> Vec<Case> {
    let missing =
        matches!(binary(), Ok(None)).then(|| "no Envoy here: `cargo xtask setup` installs one".to_owned());
    let missing = missing.as_ref();
    vec![
        Case::new("real::a_request_in_flight_delays_503", a_request_in_flight_delays_503)
            .skipped_for(missing),
        Case::new("real::envoy_is_killed", envoy_is_killed).skipped_for(missing),
        Case::new("real::envoy_hangs", envoy_hangs).skipped_for(missing),
        Case::new("real::a_gateway_without_requests", a_gateway_without_requests).skipped_for(missing),
        Case::new("real::stats_kept_out", stats_kept_out).skipped_for(missing),
    ]
}

/// Exercises two requests that wait in a real Envoy so that the LB sees 200 until both have their answers,
/// and 503 after that.
fn a_request_in_flight_delays_503() -> anyhow::Result<()> {
    for deferred_stats in [false, true] {
        let envoy = envoy(Config { deferred_stats, ..Config::default() })?;
        let sidecar = Sidecar::start(envoy.admin, &[("LB_BUFFER", "1")])?;
        let requests = [envoy.request()?, envoy.request()?];
        let drain = sidecar.begin(&["drain"])?;
        eventually("four: two downstream, two upstream", SOON, || {
            sidecar.state().ok().filter(|state| state.active == Some(4))
        })?;
        stays("200 and 200", Duration::from_secs(2), || Ok(sidecar.health()? == (200, 200)))?;
        envoy.release();
        for request in requests {
            let answer = request.join().map_err(|_| anyhow!("the client panicked"))??;
            assert_eq!((answer.status, answer.body.as_str()), (200, "done\n"), "a request was cut");
        }
        let closing = sidecar.wait_for("CLOSING")?;
        assert_eq!((closing.active, sidecar.health()?), (Some(0), (503, 200)));
        assert_eq!(drain.finish()?.0, 0);
        sidecar.wait_for_line("event=active active=4 downstream=2 upstream=2")?;
        sidecar.wait_for_line("from=DRAINING to=CLOSING reason=active_zero active=0")?;
    }
    Ok(())
}

/// Exercises an Envoy that dies with a request in flight so that its silence is not zero: FAULT at the
/// timeout, not CLOSING.
fn envoy_is_killed() -> anyhow::Result<()> {
    let envoy = envoy(Config::default())?;
    let sidecar = Sidecar::start(envoy.admin, &[("DRAIN_TIMEOUT", "3")])?;
    let request = envoy.request()?;
    let drain = sidecar.begin(&["drain"])?;
    eventually("the count", SOON, || sidecar.state().ok().filter(|state| state.active == Some(2)))?;
    envoy.signal(Signal::SIGKILL)?;
    let cut = request.join().map_err(|_| anyhow!("the client panicked"))?;
    ensure!(cut.is_err(), "the request had an answer: {cut:?}");
    eventually("unknown", SOON, || sidecar.state().ok().filter(|state| state.active.is_none()))?;
    assert_eq!(sidecar.health()?, (200, 200));
    let fault = sidecar.wait_for("FAULT")?;
    assert_eq!((fault.active, fault.reason.as_str()), (None, "drain_timeout_active_unknown"));
    assert_eq!(sidecar.health()?, (503, 503));
    assert_eq!(drain.finish()?.0, 3);
    Ok(())
}

/// Exercises an Envoy that is stopped for a while so that the drain waits, and goes on with it.
fn envoy_hangs() -> anyhow::Result<()> {
    let envoy = envoy(Config::default())?;
    let sidecar = Sidecar::start(envoy.admin, &[])?;
    let request = envoy.request()?;
    let drain = sidecar.begin(&["drain"])?;
    eventually("the count", SOON, || sidecar.state().ok().filter(|state| state.active == Some(2)))?;
    envoy.signal(Signal::SIGSTOP)?;
    envoy.release();
    let held = stays("200 and 200", Duration::from_secs(3), || Ok(sidecar.health()? == (200, 200)));
    envoy.signal(Signal::SIGCONT)?;
    held?;
    let answer = request.join().map_err(|_| anyhow!("the client panicked"))??;
    assert_eq!(answer.status, 200);
    assert_eq!(drain.finish()?.0, 0);
    Ok(())
}

/// Exercises a gateway that never had a request and makes its stats with the first one, so that it drains at
/// once; and one whose stats have been made and are zero.
fn a_gateway_without_requests() -> anyhow::Result<()> {
    for deferred_stats in [true, false] {
        let envoy = envoy(Config { deferred_stats, ..Config::default() })?;
        let sidecar = Sidecar::start(envoy.admin, &[("LB_BUFFER", "0")])?;
        let (code, stdout, stderr) = sidecar.run(&["drain"])?;
        assert_eq!(code, 0, "{stdout}{stderr}{:#?}", sidecar.log());
    }
    Ok(())
}

/// Exercises an Envoy that keeps only what Istio keeps by default so that the drain does not take the want of
/// stats for zero, and names the remedy.
fn stats_kept_out() -> anyhow::Result<()> {
    let envoy = envoy(Config { istio_stats: true, ..Config::default() })?;
    let sidecar = Sidecar::start(envoy.admin, &[("DRAIN_TIMEOUT", "1"), ("LB_BUFFER", "0")])?;
    let request = envoy.request()?;
    let (code, _, stderr) = sidecar.run(&["drain"])?;
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("proxyStatsMatcher"), "{stderr}");
    envoy.release();
    thread::sleep(Duration::from_millis(100));
    drop(request);
    Ok(())
}
