//! The gateway: a real Envoy as the pod's container `istio-proxy`, and its own counters.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::Signal;

use super::{
    client,
    pod::{Container, Pod},
};
use crate::sandbox::Netns;

/// The container's name.
pub const CONTAINER: &str = "istio-proxy";

/// The port that the load balancer talks to.
pub const PORT: u16 = 8080;

/// Where the app of the same pod is expected.
pub const APP: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9000);

const CONFIG: &str = include_str!("envoy.yaml");
const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 15000);
const LISTENER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), PORT);

/// The listener's stats, as the configuration names them.
const PREFIX: &str = "http.outbound_0.0.0.0_8080.";

/// A running Envoy.
#[derive(Debug)]
pub struct Envoy {
    container: Container,
}

impl Envoy {
    /// Starts it and waits until it listens. `workdir` gets its configuration.
    pub fn start(pod: &Pod, binary: &Path, workdir: &Path) -> Result<Self> {
        let file = workdir.join("envoy.yaml");
        fs::write(&file, CONFIG).with_context(|| format!("cannot write {}", file.display()))?;
        let command = [
            text(binary)?,
            "--config-path",
            text(&file)?,
            "--log-level",
            "warning",
            "--concurrency",
            "2",
            "--disable-hot-restart",
        ];
        let mut container = pod.start(CONTAINER, &command, &[])?;
        container.listens(LISTENER)?;
        container.listens(ADMIN)?;
        Ok(Self { container })
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(&mut self) -> Result<()> {
        self.container.end(Signal::SIGKILL).map(drop)
    }

    /// The counters and gauges of its listener by their names without the prefix, such as `downstream_rq_active`.
    pub fn stats(&self) -> Result<BTreeMap<String, u64>> {
        let stats = told(self.container.netns(), "outbound_")?;
        let stats = stats.lines().filter_map(|line| {
            let (name, value) = line.strip_prefix(PREFIX)?.split_once(": ")?;
            // Histograms are no numbers.
            Some((name.to_owned(), value.parse().ok()?))
        });
        Ok(stats.collect())
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

/// What the gateway in a pod's namespace has in flight, as its own lines, such as `cluster.app.upstream_rq_active: 0`.
pub fn active(netns: &Netns) -> Result<String> {
    told(netns, "(outbound_.*downstream|cluster.*upstream)_rq_active$")
}

fn told(netns: &Netns, filter: &str) -> Result<String> {
    let reply = client::ask(netns, ADMIN, "GET", &format!("/stats?filter={filter}"))?;
    if reply.status != 200 {
        bail!("Envoy answered GET /stats with {}: {}", reply.status, reply.body);
    }
    Ok(reply.body)
}

/// A path as a word of a command line.
pub fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8: use a directory whose name is", path.display()))
}
