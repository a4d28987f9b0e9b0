//! Whole drains against a scripted Envoy.

use std::{net::TcpListener, time::Duration};

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use xtask::sandbox::eventually;

use crate::{
    Case,
    fake_envoy::{FakeEnvoy, Mode},
    sidecar::{SOON, Sidecar, field, stays},
};

const SOME_TIME: Duration = Duration::from_millis(800);

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("drains::closes_after_zero", closes_after_zero),
        Case::new("drains::text_answers", text_answers),
        Case::new("drains::times_out", times_out),
        Case::new("drains::nothing_but_zero_is_zero", nothing_but_zero_is_zero),
        Case::new("drains::a_hung_envoy", a_hung_envoy),
        Case::new("drains::no_envoy", no_envoy),
        Case::new("drains::two_at_once", two_at_once),
        Case::new("drains::reopened", reopened),
        Case::new("drains::the_command_is_killed", the_command_is_killed),
        Case::new("drains::sigterm_without_pre_stop", sigterm_without_pre_stop),
        Case::new("drains::sigterm_after_a_fault", sigterm_after_a_fault),
        Case::new("drains::signals_that_end_at_once", signals_that_end_at_once),
    ]
}

/// Exercises the runbook's whole course so that 503 comes only after zero, readiness after it, and each step
/// stands in the log with the instant that `/state` has.
fn closes_after_zero() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(1, 1))?;
    let mut sidecar = Sidecar::start(envoy.address, &[("LB_BUFFER", "1")])?;
    assert_eq!(sidecar.health()?, (200, 200));
    let opened = sidecar.state()?;
    assert_eq!((opened.active, opened.envoy, opened.reason.as_str()), (None, None, "start"));
    assert_eq!(envoy.asked(), 0, "Envoy is asked in OPEN");

    let mut drain = sidecar.begin(&["drain"])?;
    eventually("the first count", SOON, || sidecar.state().ok().filter(|state| state.active == Some(2)))?;
    stays("200 and 200", SOME_TIME, || Ok(sidecar.health()? == (200, 200)))?;
    envoy.set(Mode::Counts(0, 1));
    stays("200 and 200 with one upstream", SOME_TIME, || Ok(sidecar.health()? == (200, 200)))?;
    assert_eq!(sidecar.state()?.active, Some(1));

    envoy.set(Mode::Counts(0, 0));
    let closing = sidecar.wait_for("CLOSING")?;
    assert_eq!((closing.active, closing.reason.as_str()), (Some(0), "active_zero"));
    assert_eq!(sidecar.health()?, (503, 200));
    ensure!(drain.running()?, "preStop ended before the LB had its time");
    let closed = sidecar.wait_for("CLOSED")?;
    assert_eq!(sidecar.health()?, (503, 503));
    let (code, stdout, stderr) = drain.finish()?;
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("event=drain state=DRAINING") && stdout.contains("state=CLOSED"), "{stdout}");

    assert_eq!(
        sidecar.transitions()?,
        ["OPEN>DRAINING drain_requested", "DRAINING>CLOSING active_zero", "CLOSING>CLOSED lb_buffer_over"]
    );
    let line = sidecar.wait_for_line("from=CLOSING to=CLOSED")?;
    assert_eq!(field(&line, "ts"), Some(closed.since));
    assert_eq!(field(&line, "active").as_deref(), Some("0"));
    sidecar.wait_for_line("event=health_check path=/health_check.html code=503")?;

    sidecar.signal(Signal::SIGTERM)?;
    assert_eq!(sidecar.wait()?.code(), Some(0));
    Ok(())
}

/// Exercises the text form of `/stats`.
fn text_answers() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::TextCounts(2, 0))?;
    let sidecar = Sidecar::start(envoy.address, &[])?;
    let drain = sidecar.begin(&["drain"])?;
    eventually("the count", SOON, || sidecar.state().ok().filter(|state| state.active == Some(2)))?;
    envoy.set(Mode::TextCounts(0, 0));
    assert_eq!(drain.finish()?.0, 0);
    Ok(())
}

/// Exercises requests that do not end so that FAULT comes at the timeout, not before, and stays.
fn times_out() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(1, 1))?;
    let sidecar = Sidecar::start(envoy.address, &[("DRAIN_TIMEOUT", "1.5"), ("LB_BUFFER", "0.7")])?;
    let mut drain = sidecar.begin(&["drain"])?;
    sidecar.wait_for("DRAINING")?;
    stays("200 and 200", Duration::from_secs(1), || Ok(sidecar.health()? == (200, 200)))?;
    let fault = sidecar.wait_for("FAULT")?;
    assert_eq!((fault.active, fault.reason.as_str(), fault.settled), (Some(2), "drain_timeout", false));
    assert_eq!(sidecar.health()?, (503, 503));
    ensure!(drain.running()?, "preStop ended before the LB had its time");
    let (code, _, stderr) = drain.finish()?;
    assert_eq!(code, 2);
    assert!(stderr.contains("requests in flight") && stderr.contains("raise DRAIN_TIMEOUT"), "{stderr}");
    // A zero that comes late does not make a fault undone.
    envoy.set(Mode::Counts(0, 0));
    eventually("the late zero", SOON, || sidecar.state().ok().filter(|state| state.active == Some(0)))?;
    let state = sidecar.state()?;
    assert_eq!((state.state.name(), state.settled), ("FAULT", true));
    sidecar.wait_for_line("event=transition from=DRAINING to=FAULT reason=drain_timeout active=2")?;
    sidecar.wait_for_line("event=drain_over state=FAULT")?;
    ensure!(!sidecar.log().iter().any(|line| line.contains("event=refused")), "{:#?}", sidecar.log());
    assert_eq!(sidecar.run(&["drain"])?.0, 2, "a second preStop finds the fault");
    Ok(())
}

/// Exercises each answer that is no count so that none of them is taken for zero.
fn nothing_but_zero_is_zero() -> Result<()> {
    for mode in [
        Mode::CutOff,
        Mode::Answer(200, ""),
        Mode::Answer(200, "{\"stats\":[]}"),
        Mode::Answer(200, "<html>welcome</html>"),
        Mode::Answer(200, "http.outbound_0.0.0.0_8080;.downstream_rq_active: 0\n"),
        Mode::Answer(
            200,
            "cluster.outbound|80||app;.upstream_rq_active: 0\nhttp.admin.downstream_rq_active: 0\n",
        ),
        Mode::Answer(404, "http.in.downstream_rq_active: 0\ncluster.a.upstream_rq_active: 0\n"),
        Mode::Answer(503, ""),
    ] {
        let envoy = FakeEnvoy::start(mode.clone())?;
        let sidecar = Sidecar::start(envoy.address, &[("DRAIN_TIMEOUT", "0.6"), ("LB_BUFFER", "0")])?;
        let (code, _, stderr) = sidecar.run(&["drain"])?;
        assert_eq!(code, 3, "{mode:?}: {stderr}");
        assert!(stderr.contains("could not be read"), "{mode:?}: {stderr}");
        assert_eq!(
            sidecar.transitions()?,
            ["OPEN>DRAINING drain_requested", "DRAINING>FAULT drain_timeout_active_unknown"],
            "{mode:?}"
        );
        let error = sidecar.wait_for_line("event=poll_error active=unknown")?;
        assert_eq!(sidecar.log().iter().filter(|line| line.contains("poll_error")).count(), 1, "{error}");
        assert_eq!(sidecar.state()?.active, None, "{mode:?}");
    }
    Ok(())
}

/// Exercises an admin server that says nothing so that health answers stay fast, and the drain goes on when
/// the server speaks again.
fn a_hung_envoy() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Hang)?;
    let sidecar = Sidecar::start(envoy.address, &[])?;
    let drain = sidecar.begin(&["drain"])?;
    sidecar.wait_for("DRAINING")?;
    stays("200, 200 and unknown", Duration::from_secs(2), || {
        Ok(sidecar.health()? == (200, 200) && sidecar.state()?.active.is_none())
    })?;
    envoy.set(Mode::Counts(0, 0));
    let error = sidecar.wait_for_line("event=poll_error")?;
    assert!(error.contains("no complete answer within 5 s"), "{error}");
    assert_eq!(drain.finish()?.0, 0);
    Ok(())
}

/// Exercises a pod without Envoy so that its absence is not zero.
fn no_envoy() -> Result<()> {
    let nobody = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let sidecar = Sidecar::start(nobody, &[("DRAIN_TIMEOUT", "0.5"), ("LB_BUFFER", "0")])?;
    let (code, _, stderr) = sidecar.run(&["drain"])?;
    assert_eq!(code, 3);
    assert!(stderr.contains(&nobody.to_string()) && stderr.contains("refused"), "{stderr}");
    Ok(())
}

/// Exercises two drains at once so that they are one, and both commands tell its end.
fn two_at_once() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(1, 0))?;
    let sidecar = Sidecar::start(envoy.address, &[])?;
    let first = sidecar.begin(&["drain"])?;
    let second = sidecar.begin(&["drain"])?;
    sidecar.wait_for("DRAINING")?;
    let begun = sidecar.state()?.since;
    // One more joins late; the drain's own clock does not begin anew.
    let third = sidecar.begin(&["drain"])?;
    stays("the begin", SOME_TIME, || Ok(sidecar.state()?.since == begun))?;
    envoy.set(Mode::Counts(0, 0));
    for drain in [first, second, third] {
        assert_eq!(drain.finish()?.0, 0);
    }
    assert_eq!(sidecar.transitions()?.len(), 3, "{:?}", sidecar.transitions()?);
    assert_eq!(sidecar.run(&["drain"])?.0, 0, "a pod that is closed is drained");
    Ok(())
}

/// Exercises reopening in each state that allows it so that the drain stops, its command says so, and
/// `Warning: 199` is there exactly when the LB was told 503.
fn reopened() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(1, 1))?;
    let sidecar = Sidecar::start(envoy.address, &[("LB_BUFFER", "8"), ("DRAIN_TIMEOUT", "2")])?;
    let warning = |sidecar: &Sidecar| -> Result<Option<String>> {
        let answer = sidecar.ask("GET", "/health_check.html")?;
        assert_eq!(answer.status, 200);
        Ok(answer.header("Warning").map(str::to_owned))
    };

    let drain = sidecar.begin(&["drain"])?;
    sidecar.wait_for("DRAINING")?;
    assert_eq!(sidecar.run(&["reopen"])?.0, 0);
    let (code, _, stderr) = drain.finish()?;
    assert_eq!(code, 4);
    assert!(stderr.contains("reopened"), "{stderr}");
    assert_eq!(warning(&sidecar)?, None, "the LB never saw a 503");

    envoy.set(Mode::Counts(0, 0));
    let drain = sidecar.begin(&["drain"])?;
    sidecar.wait_for("CLOSING")?;
    assert_eq!(sidecar.ask("GET", "/health_check.html")?.header("Warning"), None);
    let (code, stdout, _) = sidecar.run(&["reopen"])?;
    assert_eq!(code, 0);
    assert!(stdout.contains(r#""state":"OPEN""#), "{stdout}");
    assert_eq!(drain.finish()?.0, 4);
    let told = warning(&sidecar)?.unwrap_or_default();
    assert!(told.starts_with("199 gt-hc \"reopened from CLOSING at 20") && told.ends_with("Z\""), "{told}");
    assert_eq!(sidecar.ask("HEAD", "/health")?.header("Warning"), Some(told.as_str()));

    // The next drain ends the warning, and may time out; a fault can be reopened, too.
    envoy.set(Mode::Counts(1, 1));
    sidecar.ask("POST", "/drain")?;
    assert_eq!(sidecar.ask("GET", "/health_check.html")?.header("Warning"), None);
    sidecar.wait_for("FAULT")?;
    sidecar.ask("POST", "/reopen")?;
    let told = warning(&sidecar)?.unwrap_or_default();
    assert!(told.contains("reopened from FAULT"), "{told}");
    Ok(())
}

/// Exercises a preStop command that is killed, by each signal, so that the drain goes on without it.
fn the_command_is_killed() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(1, 1))?;
    let sidecar = Sidecar::start(envoy.address, &[])?;
    let killed = sidecar.begin(&["drain"])?;
    let told = sidecar.begin(&["drain"])?;
    sidecar.wait_for("DRAINING")?;
    // Both must have begun to follow before they are ended.
    std::thread::sleep(SOME_TIME);
    killed.signal(Signal::SIGKILL)?;
    told.signal(Signal::SIGTERM)?;
    assert!(killed.finish().is_err(), "killed, so without an exit code");
    let (code, _, stderr) = told.finish()?;
    assert_eq!(code, 5);
    assert!(stderr.contains("the drain goes on in the server"), "{stderr}");
    assert_eq!(sidecar.state()?.state.name(), "DRAINING");
    envoy.set(Mode::Counts(0, 0));
    sidecar.wait_for("CLOSED")?;
    Ok(())
}

/// Exercises SIGTERM in OPEN so that a pod without preStop drains before it ends, refuses to be reopened, and
/// answers until then.
fn sigterm_without_pre_stop() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(1, 1))?;
    let mut sidecar = Sidecar::start(envoy.address, &[])?;
    sidecar.signal(Signal::SIGTERM)?;
    sidecar.wait_for("DRAINING")?;
    let refused = sidecar.ask("POST", "/reopen")?;
    assert_eq!(refused.status, 409);
    assert!(refused.body.contains("SIGTERM"), "{}", refused.body);
    stays("200 and 200", SOME_TIME, || Ok(sidecar.health()? == (200, 200)))?;
    let follower = sidecar.begin(&["drain"])?;
    std::thread::sleep(SOME_TIME);
    ensure!(!sidecar.ended()?, "the server ended with requests in flight");
    envoy.set(Mode::Counts(0, 0));
    assert_eq!(follower.finish()?.0, 0, "a follower sees the end before the server is gone");
    assert_eq!(sidecar.wait()?.code(), Some(0));
    sidecar.wait_for_line("event=stopped state=CLOSED exit=0")?;
    sidecar.wait_for_line("from=OPEN to=DRAINING reason=sigterm")?;
    Ok(())
}

/// Exercises SIGTERM while the drain is a fault so that the end waits for the LB and tells what it was.
fn sigterm_after_a_fault() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(1, 1))?;
    let mut sidecar = Sidecar::start(envoy.address, &[("DRAIN_TIMEOUT", "0.5"), ("LB_BUFFER", "1.5")])?;
    sidecar.ask("POST", "/drain")?;
    sidecar.wait_for("FAULT")?;
    sidecar.signal(Signal::SIGTERM)?;
    stays("the 503", SOME_TIME, || Ok(sidecar.health()? == (503, 503)))?;
    assert_eq!(sidecar.wait()?.code(), Some(2));
    Ok(())
}

/// Exercises SIGINT, and SIGTERM twice, so that a person at a terminal is not kept waiting.
fn signals_that_end_at_once() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(1, 1))?;
    let mut sidecar = Sidecar::start(envoy.address, &[])?;
    sidecar.signal(Signal::SIGINT)?;
    assert_eq!(sidecar.wait()?.code(), Some(5));

    let mut sidecar = Sidecar::start(envoy.address, &[])?;
    sidecar.signal(Signal::SIGTERM)?;
    sidecar.wait_for("DRAINING")?;
    sidecar.signal(Signal::SIGTERM)?;
    assert_eq!(sidecar.wait()?.code(), Some(5));
    Ok(())
}
