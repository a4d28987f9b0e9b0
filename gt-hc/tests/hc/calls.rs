//! Calls and health checks over the wire.

use anyhow::Result;
use gt_hc::answers::RefusalBody;

use crate::{
    Case,
    fake_envoy::{FakeEnvoy, Mode},
    http,
    sidecar::Sidecar,
};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("calls::health_checks_of_load_balancers", health_checks_of_load_balancers),
        Case::new("calls::steps_by_hand", steps_by_hand),
        Case::new("calls::an_old_script", an_old_script),
    ]
}

/// Exercises the requests that LBs send (HTTP/1.0 without a host, HEAD, a query) so that each is understood.
fn health_checks_of_load_balancers() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(0, 0))?;
    let sidecar = Sidecar::start(envoy.address, &[])?;
    let haproxy = http::raw(sidecar.address, b"GET /health_check.html HTTP/1.0\r\n\r\n")?;
    assert_eq!((haproxy.status, haproxy.body.as_str()), (200, "OPEN\n"));
    let netscaler = sidecar.ask("HEAD", "/health_check.html?from=lb")?;
    assert_eq!((netscaler.status, netscaler.body.as_str()), (200, ""));
    assert_eq!(netscaler.header("Cache-Control"), Some("no-store"));
    assert_eq!(netscaler.header("Content-Length"), Some("5"));
    let options = sidecar.ask("OPTIONS", "/health_check.html")?;
    assert_eq!((options.status, options.header("Allow")), (405, Some("GET, HEAD")));
    assert_eq!(sidecar.ask("GET", "/live")?.status, 200);
    // A later line: when it is there, so is all that was told before it.
    assert_eq!(sidecar.ask("POST", "/close")?.status, 409);
    sidecar.wait_for_line("event=refused")?;
    let checks: Vec<_> =
        sidecar.log().into_iter().filter(|line| line.contains("event=health_check")).collect();
    assert_eq!(checks.len(), 1, "in OPEN the first check is told, and no other: {checks:#?}");
    Ok(())
}

/// Exercises the calls in wrong and right order so that each refusal names what is accepted, and the
/// commands end with the right codes.
fn steps_by_hand() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(1, 1))?;
    let sidecar = Sidecar::start(envoy.address, &[("LB_BUFFER", "60")])?;
    let refused = sidecar.ask("POST", "/close-lb")?;
    assert_eq!(refused.status, 409);
    let body: RefusalBody = serde_json::from_str(&refused.body)?;
    assert_eq!(body.allowed, ["POST /drain"]);
    sidecar.wait_for_line("event=refused path=/close-lb code=409")?;
    let (code, _, stderr) = sidecar.run(&["close"])?;
    assert_eq!(code, 2);
    assert!(stderr.contains("POST /close is refused in OPEN"), "{stderr}");

    sidecar.ask("POST", "/drain")?;
    let (code, stdout, _) = sidecar.run(&["close-lb"])?;
    assert_eq!(code, 0);
    assert!(stdout.contains(r#""state":"CLOSING""#), "{stdout}");
    assert_eq!(sidecar.health()?, (503, 200));
    let (code, stdout, _) = sidecar.run(&["state"])?;
    assert_eq!(code, 0);
    assert!(stdout.contains(r#""reason":"close_lb_requested""#), "{stdout}");
    assert_eq!(sidecar.run(&["close"])?.0, 0);
    assert_eq!(sidecar.health()?, (503, 503));
    assert_eq!(sidecar.run(&["reopen"])?.0, 2, "CLOSED is final");
    Ok(())
}

/// Exercises a preStop script that makes every step itself so that it works although the server drives the
/// drain as well: each step is accepted, or is one the server has made already.
fn an_old_script() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(1, 1))?;
    let sidecar = Sidecar::start(envoy.address, &[("LB_BUFFER", "0.2")])?;
    assert_eq!(sidecar.ask("POST", "/drain")?.status, 200);
    assert_eq!(sidecar.ask("POST", "/drain")?.status, 200);
    envoy.set(Mode::Counts(0, 0));
    sidecar.wait_for("CLOSED")?;
    assert_eq!(sidecar.ask("POST", "/close")?.status, 200);
    assert_eq!(sidecar.transitions()?.len(), 3);
    Ok(())
}
