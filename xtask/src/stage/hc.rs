//! The health sidecar: the real `gt-hc run` as the pod's container `hc`, and calls to it from inside the pod.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::{
    client,
    envoy::text,
    pod::{Container, Pod},
};
use crate::sandbox::Process;

/// The container's name.
pub const CONTAINER: &str = "hc";

/// The port that the load balancer asks.
pub const PORT: u16 = 18180;

const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT);

/// A running gt-hc.
#[derive(Debug)]
pub struct Hc {
    container: Container,
    binary: PathBuf,
}

impl Hc {
    /// Starts it with settings from the environment, such as `LB_BUFFER`, and waits until it listens.
    pub fn start(pod: &Pod, binary: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        let mut container = pod.start(CONTAINER, &[text(binary)?, "run"], settings)?;
        container.listens(ADDRESS)?;
        Ok(Self { container, binary: binary.to_owned() })
    }

    /// A call such as `/drain`; gives the state that it led to.
    pub fn call(&self, path: &str) -> Result<String> {
        self.told("POST", path)
    }

    /// The state now.
    pub fn state(&self) -> Result<String> {
        self.told("GET", "/state")
    }

    /// Starts `gt-hc drain`, the preStop command, inside the pod.
    pub fn drain(&self) -> Result<Process> {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", self.container.netns().name()])
            .arg(&self.binary)
            .arg("drain")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        Process::start("gt-hc drain", &mut command)
    }

    /// Ends it as the kubelet does, and waits until it has ended. While it drains, that is at the drain's end.
    pub fn stop(&mut self) -> Result<()> {
        self.container.end(Signal::SIGTERM).map(drop)
    }

    fn told(&self, method: &str, path: &str) -> Result<String> {
        let reply = client::ask(self.container.netns(), ADDRESS, method, path)?;
        if reply.status != 200 {
            bail!("gt-hc answered {method} {path} with {}: {}", reply.status, reply.body);
        }
        let told: Value = serde_json::from_str(&reply.body)
            .with_context(|| format!("gt-hc's answer to {method} {path} is no JSON: {}", reply.body))?;
        let state = told["state"].as_str();
        state.map(str::to_owned).with_context(|| format!("gt-hc names no state: {}", reply.body))
    }

    /// Its container, for whoever ends it in steps.
    pub fn container(&mut self) -> &mut Container {
        &mut self.container
    }

    /// The last lines of its log, for an error.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.container.log_tail()
    }
}
