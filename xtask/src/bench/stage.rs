//! Two pairs of namespaces, each a client and a server joined by veth: one pair is watched, the other not.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process,
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::load::{self, Done, Ending, Load, Server};
use crate::{
    sandbox::{End, Netns, veth},
    stage::{daemon::Daemon, interrupt},
};

/// The name of the pod that serves.
const POD: &str = "server";

/// Ports are used again at once and nothing is left over from one round to the next: no TIME_WAIT sockets, and
/// orphans wait for their FIN as whole sockets (longer than TCP_TIMEWAIT_LEN, net/ipv4/tcp_input.c).
const SETTINGS: [(&str, &str); 3] =
    [("tcp_max_tw_buckets", "0"), ("tcp_fin_timeout", "120"), ("ip_local_port_range", "1024 65535")];

/// Which pair of namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Watched,
    Unwatched,
}

#[derive(Debug)]
struct Wire {
    // Dropped first: its threads hold sockets in the namespace.
    _server: Server,
    client_end: Netns,
    address: SocketAddr,
    server_end: Netns,
}

impl Wire {
    fn create(name: &str, subnet: u8) -> Result<Self> {
        let netns = |end: &str| -> Result<Netns> {
            let netns = Netns::create(&format!("gt-bench-{}-{name}-{end}", process::id()))?;
            netns.enter(settings)??;
            Ok(netns)
        };
        let (client_end, server_end) = (netns("client")?, netns("server")?);
        let (client, server) = (format!("10.78.{subnet}.1/24"), format!("10.78.{subnet}.2/24"));
        veth(
            &End { netns: &client_end, device: "eth0", addresses: &[&client] },
            &End { netns: &server_end, device: "eth0", addresses: &[&server] },
        )?;
        let address = SocketAddr::from((Ipv4Addr::new(10, 78, subnet, 2), 8080));
        let server = server_end.enter(|| Server::start(address))??;
        Ok(Self { _server: server, client_end, address, server_end })
    }
}

/// `/proc/sys/net` is that of the thread's namespace.
fn settings() -> Result<()> {
    for (name, value) in SETTINGS {
        let file = Path::new("/proc/sys/net/ipv4").join(name);
        fs::write(&file, value).with_context(|| format!("cannot set {} to {value}", file.display()))?;
    }
    Ok(())
}

/// All that the load needs.
#[derive(Debug)]
pub(super) struct Stage {
    watched: Wire,
    unwatched: Wire,
    both_ends: PathBuf,
    server_only: PathBuf,
}

impl Stage {
    /// Makes the namespaces and the pods files.
    pub(super) fn create(workdir: &Path) -> Result<Self> {
        let watched = Wire::create("w", 1)?;
        let unwatched = Wire::create("u", 2)?;
        let pods = |file: &str, pods: &[(&str, &Netns)]| -> Result<PathBuf> {
            let text: String = pods
                .iter()
                .map(|(name, netns)| {
                    let netns = netns.path();
                    format!(
                        "[[pod]]\nnamespace = \"bench\"\nname = \"{name}\"\nnetns = \"{}\"\n",
                        netns.display()
                    )
                })
                .collect();
            let file = workdir.join(file);
            fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
            Ok(file)
        };
        let server = (POD, &watched.server_end);
        let both_ends = pods("both.toml", &[server, ("client", &watched.client_end)])?;
        let server_only = pods("server.toml", &[server])?;
        Ok(Self { watched, unwatched, both_ends, server_only })
    }

    /// The pods file that has both ends of the watched wire.
    pub(super) fn both_ends(&self) -> &Path {
        &self.both_ends
    }

    /// The pods file that has the server only.
    pub(super) fn server_only(&self) -> &Path {
        &self.server_only
    }

    /// Makes connections.
    pub(super) fn load(&self, side: Side, load: &Load) -> Result<Done> {
        let wire = match side {
            Side::Watched => &self.watched,
            Side::Unwatched => &self.unwatched,
        };
        wire.client_end.enter(|| load::run(wire.address, load))?
    }

    /// Makes connections to the watched pod, so many a second; returns how many.
    pub(super) fn paced(&self, per_second: u32, length: Duration, ending: Ending) -> Result<u64> {
        self.watched.client_end.enter(|| load::paced(self.watched.address, per_second, length, ending))?
    }

    /// The network namespace of the pod that serves.
    pub(super) fn watched_pod(&self) -> &Netns {
        &self.watched.server_end
    }

    /// Where its files lie.
    pub(super) fn directory(&self) -> &Path {
        self.server_only.parent().unwrap_or(Path::new("/"))
    }

    /// Waits until the daemon counts connections of the pod.
    pub(super) fn until_watched(&self, daemon: &Daemon) -> Result<()> {
        let load = Load { length: Duration::from_millis(20), ending: Ending::Close };
        interrupt::wait_for("gt-daemon to count the pod's connections", Duration::from_secs(10), || {
            self.load(Side::Watched, &load)?;
            let scrape = daemon.scrape()?;
            let opened: f64 = scrape
                .select("gt_connections_opened_total", &[("pod", POD)])
                .map(|sample| sample.value)
                .sum();
            Ok((opened > 0.0).then_some(()))
        })
    }
}
