//! The programs a stage is made of: where they are, and which of them are missing here.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context as _, Result};
use xtask::{setup::envoy, stage};

/// This binary's first argument when it is the pod's app.
pub const APP: &str = "stage-app";

/// Plays the app, if that is what this process was started for: `<binary> stage-app <address>`.
pub fn app() -> Option<ExitCode> {
    let mut arguments = env::args().skip(1);
    if arguments.next()? != APP {
        return None;
    }
    let address = arguments.next().unwrap_or_default();
    Some(match stage::app::listen(&address) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("app: {error:#}");
            ExitCode::FAILURE
        }
    })
}

/// The daemon's binary: given by whoever runs the tests, else the one cargo built.
pub fn daemon() -> PathBuf {
    env::var_os("GT_DAEMON").map_or_else(|| env!("CARGO_BIN_EXE_gt-daemon").into(), PathBuf::from)
}

/// The sidecar's binary: given by whoever runs the tests, else the one beside the daemon's.
pub fn hc() -> PathBuf {
    env::var_os("GT_HC").map_or_else(|| daemon().with_file_name("gt-hc"), PathBuf::from)
}

pub fn envoy() -> Result<PathBuf> {
    envoy::found()?.context("no Envoy: `cargo xtask setup` installs one, GT_ENVOY names one")
}

/// Why no stage can be made here; `None` when one can.
pub fn missing() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("not root: namespaces, cgroups and bpf() need it".to_owned());
    }
    for (program, version) in [("ip", "-V"), ("haproxy", "-v"), ("tcpdump", "--version")] {
        let started = Command::new(program).arg(version).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if started.is_err() {
            return Some(format!("{program} is not installed: `cargo xtask setup` installs it"));
        }
    }
    if let Err(error) = envoy() {
        return Some(format!("{error:#}"));
    }
    let absent = |what: &str, path: &Path| {
        (!path.is_file()).then(|| format!("no {what} at {}: `cargo build` makes it", path.display()))
    };
    absent("gt-daemon", &daemon()).or_else(|| absent("gt-hc", &hc()))
}
