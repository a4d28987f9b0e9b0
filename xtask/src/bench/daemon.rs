//! Release builds of gt-daemon and of what measures it; the daemon, started.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::{cargo, stage::daemon::Daemon};

/// What is measured and what measures.
#[derive(Debug)]
pub(super) struct Binaries {
    pub(super) daemon: PathBuf,
    pub(super) empty_hooks: PathBuf,
    pub(super) read_envoy: PathBuf,
}

impl Binaries {
    /// Builds all.
    pub(super) fn build() -> Result<Self> {
        let build = [
            "build",
            "--release",
            "--package",
            "gt-daemon",
            "--bin",
            "gt-daemon",
            "--example",
            "empty_hooks",
            "--example",
            "read_envoy",
        ];
        let status = cargo::cargo(&build).status().context("cannot start cargo: install Rust with rustup")?;
        if !status.success() {
            bail!("`cargo {}` ended with {status}: see the compiler's messages above", build.join(" "));
        }
        let release = cargo::target_dir().join("release");
        let examples = release.join("examples");
        Ok(Self {
            daemon: release.join("gt-daemon"),
            empty_hooks: examples.join("empty_hooks"),
            read_envoy: examples.join("read_envoy"),
        })
    }
}

/// Starts gt-daemon on the pods of a file, in whose directory its own words go.
pub(super) fn start(binaries: &Binaries, attach: &str, pods: &Path) -> Result<Daemon> {
    let workdir = pods.parent().context("the pods file is in no directory")?;
    let source = format!("static:{}", pods.display());
    Daemon::start(&binaries.daemon, &["--log", "warn", "--attach", attach, "--pods", &source], workdir)
}
