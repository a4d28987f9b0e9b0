//! Who may change the state, by real peers.

use std::{net::SocketAddr, process::Command};

use anyhow::{Context as _, Result};
use nix::unistd::geteuid;
use xtask::sandbox::{self, Netns};

use crate::{
    Case,
    fake_envoy::{FakeEnvoy, Mode},
    http,
    sidecar::{GT_HC, Sidecar},
};

pub fn cases() -> Vec<Case> {
    let not_root = (!geteuid().is_root()).then(|| "not root: a network namespace needs it".to_owned());
    vec![
        Case::new("peers::ipv4_on_an_ipv6_socket", ipv4_on_an_ipv6_socket),
        Case::new("peers::from_outside", from_outside).skipped_for(not_root.as_ref()),
    ]
}

/// Exercises 127.0.0.1 on a socket for both families, where it is ::ffff:127.0.0.1, and ::1, so that both
/// are inside.
fn ipv4_on_an_ipv6_socket() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(0, 0))?;
    let sidecar = Sidecar::start(envoy.address, &[("GT_HC_LISTEN", "[::]:0"), ("LB_BUFFER", "60")])?;
    let port = sidecar.address.port();
    let v4 = SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(http::ask(v4, "POST", "/drain")?.status, 200);
    sidecar.wait_for_line("from=OPEN to=DRAINING")?;
    let v6: SocketAddr = format!("[::1]:{port}").parse()?;
    assert_eq!(http::ask(v6, "POST", "/reopen")?.status, 200);
    // The commands come by ::1, as the server's address asks for.
    assert_eq!(sidecar.run(&["state"])?.0, 0);
    Ok(())
}

/// Exercises a peer with the pod's own address, and one with another's, in a namespace made for it, so that
/// neither changes anything, and both may ask.
fn from_outside() -> Result<()> {
    let netns = Netns::create(&format!("gt-hc-test-{}", std::process::id()))?;
    sandbox::run(Command::new("ip").args([
        "-n",
        netns.name(),
        "address",
        "add",
        "10.77.9.2/24",
        "dev",
        "lo",
    ]))?;
    let sidecar = Sidecar::start_by(
        netns.command(GT_HC),
        ([127, 0, 0, 1], 15000).into(),
        &[("GT_HC_LISTEN", "0.0.0.0:0")],
    )?;
    let outside = SocketAddr::from(([10, 77, 9, 2], sidecar.address.port()));
    netns.enter(|| -> Result<()> {
        assert_eq!(http::ask(outside, "GET", "/health_check.html")?.status, 200);
        for path in ["/drain", "/close-lb", "/close", "/reopen"] {
            let refused = http::ask(outside, "POST", path)?;
            assert_eq!(refused.status, 403, "{path}");
            assert!(
                refused.body.contains("10.77.9.2") && refused.body.contains("gt-hc drain"),
                "{}",
                refused.body
            );
        }
        let state = http::ask(outside, "GET", "/state")?;
        assert!(state.body.contains(r#""state":"OPEN""#), "{}", state.body);
        Ok(())
    })??;
    let line = sidecar.wait_for_line("event=refused path=/drain code=403")?;
    assert!(line.contains("peer=10.77.9.2:"), "{line}");
    let inside = SocketAddr::from(([127, 0, 0, 1], sidecar.address.port()));
    let answer = netns.enter(|| http::ask(inside, "POST", "/drain"))?.context("from inside")?;
    assert_eq!(answer.status, 200);
    Ok(())
}
