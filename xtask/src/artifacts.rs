//! Builds the workspace with its tests, once and statically, and says where the executables are.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::{cargo, stream::stream};

/// The integration test of gt-daemon that needs a kernel and root.
pub const KERNEL_TESTS: &str = "kernel";

/// The one that needs HAProxy, Envoy and gt-hc as well.
pub const JOIN_TESTS: &str = "join";

/// A build from nothing takes minutes; one that takes this long is stuck.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// The executables of one build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Artifacts {
    /// The daemon itself.
    pub daemon: Option<PathBuf>,
    /// The sidecar.
    pub hc: Option<PathBuf>,
    /// The kernel tests, which also run in a guest.
    pub kernel_tests: Option<PathBuf>,
    /// The tests of the join, which want real parts beside the kernel.
    pub join_tests: Option<PathBuf>,
    /// The names of the other integration tests.
    pub integration_tests: Vec<String>,
}

impl Artifacts {
    /// The daemon and the kernel tests, for whoever needs both.
    pub fn kernel(&self) -> Result<(&PathBuf, &PathBuf)> {
        Ok((
            self.daemon.as_ref().context("the build made no executable gt-daemon: is there a [[bin]] of that name?")?,
            self.kernel_tests.as_ref().context(
                "the build made no test executable `kernel`: gt-daemon needs a [[test]] of that name with harness = false",
            )?,
        ))
    }

    /// The tests of the join, the daemon and the sidecar.
    pub fn join(&self) -> Result<(&PathBuf, &PathBuf, &PathBuf)> {
        let (daemon, _) = self.kernel()?;
        let tests = self.join_tests.as_ref().context(
            "the build made no test executable `join`: gt-daemon needs a [[test]] of that name with harness = false",
        )?;
        let hc = self
            .hc
            .as_ref()
            .context("the build made no executable gt-hc: is there a [[bin]] of that name?")?;
        Ok((tests, daemon, hc))
    }
}

/// Builds packages for release; gives the directory of their executables.
pub fn release(packages: &[&str]) -> Result<PathBuf> {
    let mut build = vec!["build", "--release"];
    build.extend(packages.iter().flat_map(|package| ["--package", package]));
    let status = cargo::cargo(&build).status().context("cannot start cargo: install Rust with rustup")?;
    if !status.success() {
        bail!(
            "`cargo {}` ended with {status}: `cargo xtask setup` installs what the build needs",
            build.join(" ")
        );
    }
    Ok(cargo::target_dir().join("release"))
}

/// Builds everything `cargo test` would run.
pub fn build() -> Result<Artifacts> {
    let command = cargo::static_cargo("test", &["--no-run", "--message-format", "json-render-diagnostics"]);
    let mut artifacts = Artifacts::default();
    let end = stream(command, LIMIT, |line| {
        if line.starts_with('{') {
            artifacts.take(line);
        } else {
            println!("{line}");
        }
    })?;
    if !end.success() {
        bail!("the build ended with {end}: see the compiler's messages above");
    }
    artifacts.integration_tests.sort_unstable();
    Ok(artifacts)
}

impl Artifacts {
    /// Takes in one of cargo's messages, if it is about an executable.
    fn take(&mut self, message: &str) {
        let Ok(message) = serde_json::from_str::<Value>(message) else { return };
        let Some(executable) = message["executable"].as_str() else { return };
        let name = message["target"]["name"].as_str().unwrap_or_default();
        let kind = message["target"]["kind"][0].as_str().unwrap_or_default();
        let is_test = message["profile"]["test"].as_bool().unwrap_or_default();
        match (kind, name, is_test) {
            ("bin", "gt-daemon", false) => self.daemon = Some(PathBuf::from(executable)),
            ("bin", "gt-hc", false) => self.hc = Some(PathBuf::from(executable)),
            ("test", JOIN_TESTS, _) => self.join_tests = Some(PathBuf::from(executable)),
            ("test", KERNEL_TESTS, _) => self.kernel_tests = Some(PathBuf::from(executable)),
            ("test", other, _) => self.integration_tests.push(other.to_owned()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises cargo's own messages so that the daemon is not mistaken for its unit tests.
    #[test]
    fn executables_are_told_apart() {
        let mut artifacts = Artifacts::default();
        for message in [
            r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"gt-daemon"},"profile":{"test":true},"executable":"/t/deps/gt_daemon-1"}"#,
            r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"gt-daemon"},"profile":{"test":false},"executable":"/t/gt-daemon"}"#,
            r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"kernel"},"profile":{"test":true},"executable":"/t/deps/kernel-2"}"#,
            r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"gt-hc"},"profile":{"test":false},"executable":"/t/gt-hc"}"#,
            r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"join"},"profile":{"test":true},"executable":"/t/deps/join-4"}"#,
            r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"layout"},"profile":{"test":true},"executable":"/t/deps/layout-3"}"#,
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"gt-common"},"profile":{"test":false},"executable":null}"#,
            r#"{"reason":"build-finished","success":true}"#,
        ] {
            artifacts.take(message);
        }
        assert_eq!(
            artifacts,
            Artifacts {
                daemon: Some("/t/gt-daemon".into()),
                hc: Some("/t/gt-hc".into()),
                kernel_tests: Some("/t/deps/kernel-2".into()),
                join_tests: Some("/t/deps/join-4".into()),
                integration_tests: vec!["layout".to_owned()],
            }
        );
    }
}
