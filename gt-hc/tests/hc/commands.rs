//! The command line: wrong values, a server that is not there, `check`.

use std::net::TcpListener;

use anyhow::Result;

use crate::{
    Case,
    fake_envoy::{FakeEnvoy, Mode},
    sidecar::{Sidecar, run},
};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("commands::wrong_values", wrong_values),
        Case::new("commands::no_server", no_server),
        Case::new("commands::another_server", another_server),
        Case::new("commands::the_port_is_taken", the_port_is_taken),
        Case::new("commands::check", check),
        Case::new("commands::closed_pipes", closed_pipes),
    ]
}

/// Exercises wrong values and a wrong command line so that each ends with 1, never with the 2 of a drain that
/// did not do its work.
fn wrong_values() -> Result<()> {
    for (arguments, variables, expected) in [
        (
            &["run"][..],
            &[("DRAIN_TIMEOUT", "2 min")][..],
            r#"gt-hc: DRAIN_TIMEOUT="2 min" is not a number of seconds"#,
        ),
        (&["run", "--lb-buffer", "-3"], &[], "'-3'"),
        (&["run", "--lb-buffer=-3"], &[], r#"--lb-buffer="-3" is negative"#),
        (&["drain"], &[("GT_HC_LISTEN", "18180")], r#"GT_HC_LISTEN="18180" is no IP address with a port"#),
        (&["check", "--fall", "0"], &[], r#"--fall="0" is no count of failed checks"#),
        (&["check"], &[("LB_BUFFER", "x")], r#"LB_BUFFER="x" is not a number of seconds"#),
        (&["stop"], &[], "unrecognized subcommand"),
        (&[], &[], "Usage"),
    ] {
        let output = run(arguments, variables)?;
        let stderr = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    let help = run(&["--help"], &[])?;
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8(help.stdout)?.contains("Exit codes:"));
    Ok(())
}

/// Exercises commands without a server so that they say where they looked.
fn no_server() -> Result<()> {
    let nobody = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    for command in ["drain", "state", "reopen"] {
        let output = run(&[command, "--listen", &nobody], &[])?;
        let stderr = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(1), "{command}: {stderr}");
        assert!(stderr.contains(&nobody) && stderr.contains("gt-hc run"), "{command}: {stderr}");
    }
    Ok(())
}

/// Exercises a port that another server has so that its answers are not taken for gt-hc's.
fn another_server() -> Result<()> {
    let other = FakeEnvoy::start(Mode::Answer(200, "{\"ok\":true}"))?.address.to_string();
    let output = run(&["drain", "--listen", &other], &[])?;
    let stderr = String::from_utf8(output.stderr)?;
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("another server"), "{stderr}");
    Ok(())
}

/// Exercises a second server on the port of the first so that it ends with the remedy.
fn the_port_is_taken() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(0, 0))?;
    let sidecar = Sidecar::start(envoy.address, &[])?;
    let output = run(&["run", "--listen", &sidecar.address.to_string()], &[])?;
    let stderr = String::from_utf8(output.stderr)?;
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("cannot listen on") && stderr.contains("GT_HC_LISTEN"), "{stderr}");
    Ok(())
}

/// Exercises `check` from the command line: its three outcomes, and both forms.
fn check() -> Result<()> {
    let numbers = ["check", "--p99", "30", "--inter", "2", "--fall", "2"];
    let output = run(&[&numbers[..], &["--grace-period", "140", "--drain-duration", "120"]].concat(), &[])?;
    let stdout = String::from_utf8(output.stdout)?;
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    let squeezed = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "DRAIN_TIMEOUT 36 s ceil(p99 x 1.2); p99 30 (--p99)",
        "LB_BUFFER 9 s inter x fall + 5; inter 2 (--inter), fall 2 (--fall)",
        "DRAIN_TIMEOUT 120 s (default)",
        "verdict holds",
    ] {
        assert!(squeezed.contains(part), "{part:?} is not in {stdout}");
    }
    let broken = run(&["check", "--grace-period", "30", "--json"], &[("DRAIN_TIMEOUT", "60")])?;
    assert_eq!(broken.status.code(), Some(2));
    let json: serde_json::Value = serde_json::from_slice(&broken.stdout)?;
    assert_eq!(json["verdict"], "broken");
    assert!(json["rules"][0]["detail"].as_str().unwrap_or_default().contains("environment DRAIN_TIMEOUT"));
    assert_eq!(run(&["check"], &[])?.status.code(), Some(3));
    Ok(())
}

/// Exercises commands whose output nobody takes, as after a broken exec session, so that the exit code still
/// tells what became of the drain.
fn closed_pipes() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(1, 1))?;
    let sidecar = Sidecar::start(envoy.address, &[("DRAIN_TIMEOUT", "0.5"), ("LB_BUFFER", "0")])?;
    for (arguments, expected) in [(&["state"], 0), (&["close"], 2), (&["drain"], 2)] {
        assert_eq!(sidecar.begin(arguments)?.finish_unread()?, expected, "{arguments:?}");
    }
    Ok(())
}
