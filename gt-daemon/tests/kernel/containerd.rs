//! Whose socket is it, with pods that a real containerd has made on its CRI socket.

mod cri;
mod daemon_set;
mod hierarchies;
mod image;
mod kubelet;
mod node;

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use xtask::{
    deploy::container,
    sandbox::{Netns, eventually},
};

use self::{
    kubelet::{Pod, Spec},
    node::{Driver, Node},
};
use crate::{
    Case, Skip, conversation,
    daemon::{Backend, Daemon},
};

/// A gateway's pod, as most are.
const GATEWAY: Spec = Spec {
    namespace: "shop",
    name: "igw-1",
    uid: "8ba3b3c8-6cb5-4d4f-9c3e-2a8f1a7d7f10",
    burstable: true,
    host_network: false,
    watches: false,
};

/// A pod that shares the gateway's name, in another namespace and of another QoS class.
const TWIN: Spec =
    Spec { namespace: "staging", uid: "8ba3b3c8-6cb5-4d4f-9c3e-2a8f1a7d7f11", burstable: false, ..GATEWAY };

/// Two pods in the network of the host.
const ON_HOST: [Spec; 2] = [
    Spec { uid: "3d5f0c86-0f0e-4b7e-8a53-0c1f6d1f2a01", host_network: true, name: "edge-1", ..GATEWAY },
    Spec { uid: "3d5f0c86-0f0e-4b7e-8a53-0c1f6d1f2a02", host_network: true, name: "edge-2", ..GATEWAY },
];

pub fn cases(unfit: Option<&String>) -> Vec<Case> {
    let mut cases = Vec::new();
    for driver in Driver::ALL {
        let skip: Skip = unfit.cloned().or_else(|| backend().err()).or_else(|| driver.unavailable());
        let unified = skip.clone().or_else(|| {
            (!hierarchies::are_unified()).then(|| {
                "the cgroups of this machine are not unified: containers cannot be told apart".to_owned()
            })
        });
        let mut case = |test: &str, skip, run: fn(&Node, &Netns) -> Result<()>| {
            let name = format!("containerd::{}::{test}", driver.name());
            cases.push(Case::new(name.clone(), skip, move || on_a_node(&name, driver, run)));
        };
        case("pods_by_their_namespaces", skip.clone(), pods);
        // A guest has no files of the repository.
        let manifest = skip.or_else(|| container::daemon_set().err().map(|error| format!("{error:#}")));
        case("as_the_daemon_set_says", manifest, daemon_set::watches);
        case("containers_and_host_networks", unified, containers);
    }
    cases
}

/// Who owns a socket does not depend on the hooks: one backend is enough.
fn backend() -> Result<Backend, String> {
    let mut reason = None;
    Backend::ALL
        .into_iter()
        .find(|backend| {
            reason = backend.unavailable();
            reason.is_none()
        })
        .ok_or_else(|| reason.unwrap_or_default())
}

/// Runs a test on a node of its own; where containerd cannot start, it is told as skipped.
fn on_a_node(name: &str, driver: Driver, test: fn(&Node, &Netns) -> Result<()>) -> Result<()> {
    let peer = Netns::create(&format!("gt-test-{}-cri", std::process::id()))?;
    match Node::start(driver, &peer) {
        Ok(node) => node.import().and_then(|()| test(&node, &peer)).with_context(|| node.log()),
        Err(error) => {
            println!("skipped: {name}: containerd cannot start here: {}", error.root_cause());
            eprintln!("{error:#}");
            Ok(())
        }
    }
}

/// A daemon that finds the node's pods by itself.
fn watch(node: &Node) -> Result<Daemon> {
    let logs = kubelet::logs(node);
    std::fs::create_dir_all(&logs)?;
    let backend = backend().map_err(anyhow::Error::msg)?;
    let pods = format!("kubelet:{}", logs.display());
    // What is called hc here is none: questions to it would count.
    Daemon::start(&["--pods", &pods, "--attach", backend.name(), "--hc-container", ""])
}

/// Pods with networks of their own, one of them with a twin of its name: each has its own counts, also after
/// a container was started anew, and beyond its end.
fn pods(node: &Node, peer: &Netns) -> Result<()> {
    let daemon = watch(node)?;
    let mut gateway = Pod::start(node, GATEWAY)?;
    let hc = gateway.serve("hc", 18180)?;
    let server = gateway.serve("server", 8080)?;
    let mut twin = Pod::start(node, TWIN)?;
    let twins_hc = twin.serve("hc", 18180)?;
    let twins_server = twin.serve("server", 8080)?;
    let of = |spec: Spec| Counts {
        daemon: &daemon,
        labels: vec![("namespace", spec.namespace), ("pod", spec.name)],
    };
    let (first, second) = (of(GATEWAY), of(TWIN));
    first.appear()?;
    second.appear()?;

    resets(peer, server.address, 3)?;
    resets(peer, hc.address, 2)?;
    resets(peer, twins_server.address, 5)?;
    first.with("class", "data").expect(3)?;
    first.with("class", "health").expect(2)?;
    second.with("class", "data").expect(5)?;

    gateway.stop(server)?;
    let server = gateway.serve("server", 8080)?;
    resets(peer, server.address, 4)?;
    resets(peer, twins_hc.address, 1)?;
    first.expect(9)?;
    second.expect(6)?;

    gateway.remove()?;
    eventually("the pod to be gone", Duration::from_secs(20), || {
        daemon.metrics().ok()?.sum("gt_pods", &[("state", "gone")]).filter(|gone| *gone == 1)
    })
    .with_context(|| daemon.log())?;
    resets(peer, twins_server.address, 2)?;
    second.expect(8)?;
    first.expect(9)?;
    if !hierarchies::are_unified() {
        unknown(node, &daemon)?;
    }
    everything(&daemon, 17)
}

/// Without unified cgroups nothing tells containers apart, nor pods in the host's network: no series has their
/// name.
fn unknown(node: &Node, daemon: &Daemon) -> Result<()> {
    let mut pod = Pod::start(node, ON_HOST[0])?;
    let hc = pod.serve("hc", 0)?;
    eventually("the pod to be told", Duration::from_secs(20), || {
        daemon
            .log()
            .lines()
            .any(|line| line.contains("host network") && line.contains("edge-1"))
            .then_some(())
    })
    .with_context(|| daemon.log())?;
    reset(hc.address)?;
    std::thread::sleep(Duration::from_millis(1200));
    let metrics = daemon.metrics()?;
    for (label, value) in [("container", "hc"), ("container", "server"), ("pod", "edge-1")] {
        let series = metrics.with(label, value).count();
        ensure!(series == 0, "{series} series have {label}={value}");
    }
    Ok(())
}

/// Containers of one pod, and pods that share the host's network: the cgroup tells them apart.
fn containers(node: &Node, peer: &Netns) -> Result<()> {
    let daemon = watch(node)?;
    let of = |spec: Spec, container| {
        let labels = vec![("namespace", spec.namespace), ("pod", spec.name), ("container", container)];
        Counts { daemon: &daemon, labels }
    };
    let mut gateway = Pod::start(node, GATEWAY)?;
    let hc = gateway.serve("hc", 18180)?;
    let server = gateway.serve("server", 8080)?;
    of(GATEWAY, "hc").appear()?;
    of(GATEWAY, "server").appear()?;
    resets(peer, server.address, 3)?;
    resets(peer, hc.address, 2)?;
    of(GATEWAY, "server").expect(3)?;
    of(GATEWAY, "hc").expect(2)?;

    // A new container in the old one's place has a new id, and a new cgroup.
    gateway.stop(server)?;
    let server = gateway.serve("server", 8080)?;
    of(GATEWAY, "server").grow(|| close(peer, server.address))?;
    resets(peer, server.address, 4)?;
    of(GATEWAY, "server").expect(7)?;

    let mut first = Pod::start(node, ON_HOST[0])?;
    let mut second = Pod::start(node, ON_HOST[1])?;
    let (one, two) = (first.serve("hc", 0)?, second.serve("hc", 0)?);
    of(ON_HOST[0], "hc").appear()?;
    of(ON_HOST[1], "hc").appear()?;
    for address in [one.address, one.address, two.address, two.address, two.address] {
        reset(address)?;
    }
    of(ON_HOST[0], "hc").expect(2)?;
    of(ON_HOST[1], "hc").expect(3)?;
    everything(&daemon, 14)
}

/// No RST was received for anybody else.
fn everything(daemon: &Daemon, expected: u64) -> Result<()> {
    Counts { daemon, labels: Vec::new() }.expect(expected)
}

/// What a daemon counts under some labels.
struct Counts<'a> {
    daemon: &'a Daemon,
    labels: Vec<(&'a str, &'a str)>,
}

impl<'a> Counts<'a> {
    fn with(&self, label: &'a str, value: &'a str) -> Self {
        let mut labels = self.labels.clone();
        labels.push((label, value));
        Self { daemon: self.daemon, labels }
    }

    fn opened(&self) -> Option<u64> {
        self.daemon.metrics().ok()?.sum("gt_connections_opened_total", &self.labels)
    }

    /// Waits for the series: from then on what happens is counted.
    fn appear(&self) -> Result<()> {
        eventually("the series", Duration::from_secs(20), || self.opened().map(drop))
            .with_context(|| format!("{:?}\n{}", self.labels, self.daemon.log()))
    }

    /// Repeats `connection` until one is counted here.
    fn grow(&self, connection: impl Fn() -> Result<()>) -> Result<()> {
        let before = self.opened();
        eventually("a connection to be counted", Duration::from_secs(20), || {
            connection().ok()?;
            (self.opened() > before).then_some(())
        })
        .with_context(|| format!("{:?}\n{}", self.labels, self.daemon.log()))
    }

    /// Waits until so many RSTs were received.
    fn expect(&self, expected: u64) -> Result<()> {
        let received = self.with("direction", "received");
        let mut last = None;
        let reached = eventually("the count", Duration::from_secs(10), || {
            last = self.daemon.metrics().ok()?.sum("gt_rst_total", &received.labels);
            (last == Some(expected)).then_some(())
        });
        reached.with_context(|| {
            format!(
                "RSTs received {:?}: {last:?}, not {expected}\n{:?}\n{}",
                self.labels,
                self.daemon.metrics(),
                self.daemon.log()
            )
        })
    }
}

/// The peer makes connections to a pod, uses and resets each.
fn resets(peer: &Netns, address: SocketAddr, times: u32) -> Result<()> {
    for _ in 0..times {
        peer.enter(|| reset(address))??;
    }
    Ok(())
}

fn reset(address: SocketAddr) -> Result<()> {
    conversation::abort(used(address)?)
}

/// The peer makes a connection to a pod, uses and closes it.
fn close(peer: &Netns, address: SocketAddr) -> Result<()> {
    peer.enter(|| used(address).map(drop))?
}

/// A connection on which the other side has echoed something: it is accepted, and read from.
fn used(address: SocketAddr) -> Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))
        .with_context(|| format!("cannot connect to {address}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"?")?;
    stream.read_exact(&mut [0]).context("no echo")?;
    Ok(stream)
}
