//! An Envoy with as many clusters as a large gateway has, in a network namespace of its own.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::{fd::AsRawFd as _, unix::process::CommandExt as _},
    path::Path,
    process::{Command, Stdio},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::socket;
use serde_json::{Value, json};

use crate::{
    sandbox::{Netns, Process},
    setup::envoy,
    stage::{client, interrupt},
};

/// As many as a large gateway has.
pub(super) const CLUSTERS: usize = 500;

/// Where Envoy's admin server listens, as in Istio.
pub(super) const ADMIN: u16 = 15_000;
const LISTENER: u16 = 8080;
const SERVICE: u16 = 9000;

/// What one request through the gateway may take.
const LIMIT: Duration = Duration::from_secs(10);

/// A running Envoy, and the service behind all of its clusters.
#[derive(Debug)]
pub(super) struct Gateway {
    // Dropped first: it has connections to the service.
    process: Process,
    _service: Service,
}

impl Gateway {
    /// Starts Envoy; where `used`, each cluster has had a request.
    pub(super) fn start(netns: &Netns, workdir: &Path, used: bool) -> Result<Self> {
        let service = netns.enter(Service::start)??;
        let file = workdir.join("envoy.json");
        fs::write(&file, bootstrap().to_string())
            .with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = Command::new(envoy::envoy()?);
        command
            .args(["--concurrency", "2", "--log-level", "error", "--disable-hot-restart", "--config-path"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0);
        let process = netns.enter(|| Process::start("envoy", &mut command))??;
        let gateway = Self { process, _service: service };
        interrupt::wait_for("Envoy to listen", Duration::from_secs(30), || {
            Ok(netns.enter(|| connect(LISTENER))?.ok().map(drop))
        })?;
        if used {
            netns.enter(|| (0..CLUSTERS).try_for_each(request))??;
        }
        Ok(gateway)
    }

    /// Its main thread, which answers for stats.
    pub(super) fn main_thread(&self) -> MainThread {
        MainThread(self.process.id())
    }
}

/// The main thread of an Envoy, by its number, which is the process's.
#[derive(Clone, Copy, Debug)]
pub(super) struct MainThread(u32);

impl MainThread {
    /// Microseconds of CPU time until now.
    pub(super) fn used_us(self) -> Result<f64> {
        let file = format!("/proc/{0}/task/{0}/schedstat", self.0);
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {file}: has Envoy ended?"))?;
        let ns: f64 = text.split_whitespace().next().context("schedstat is empty")?.parse()?;
        Ok(ns / 1e3)
    }
}

fn connect(port: u16) -> Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, LIMIT).with_context(|| format!("cannot connect to {address}"))
}

fn request(cluster: usize) -> Result<()> {
    let reply = client::request(connect(LISTENER)?, "GET", &format!("/{cluster}"), LIMIT)?;
    ensure!(reply.status == 200, "Envoy answered {} for its cluster {cluster}", reply.status);
    Ok(())
}

/// Answers one request on each connection, until it is dropped.
#[derive(Debug)]
struct Service {
    listener: TcpListener,
    worker: Option<JoinHandle<()>>,
}

impl Service {
    /// Listens in the namespace of the calling thread.
    fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, SERVICE))
            .with_context(|| format!("cannot listen on port {SERVICE}"))?;
        let accepting = listener.try_clone()?;
        let worker = thread::spawn(move || {
            while let Ok((mut stream, _)) = accepting.accept() {
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                // Envoy tells when something is wrong.
                let _told_by_envoy = stream.read(&mut [0; 4096]).and_then(|_| stream.write_all(answer));
            }
        });
        Ok(Self { listener, worker: Some(worker) })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Wakes the worker from accept.
        let _not_listening = socket::shutdown(self.listener.as_raw_fd(), socket::Shutdown::Both);
        let _panicked = self.worker.take().map(JoinHandle::join);
    }
}

/// Names as Istio gives them; a request's path chooses the cluster.
fn bootstrap() -> Value {
    let name =
        |index: usize| format!("outbound|80||service-{index}.namespace-{}.svc.cluster.local", index % 23);
    let at = |port: u16| json!({"socket_address": {"address": "127.0.0.1", "port_value": port}});
    let clusters: Vec<_> = (0..CLUSTERS)
        .map(|index| {
            let name = name(index);
            json!({
                "name": name, "alt_stat_name": format!("{name};"), "type": "STATIC", "connect_timeout": "1s",
                "load_assignment": {
                    "cluster_name": name,
                    "endpoints": [{"lb_endpoints": [{"endpoint": {"address": at(SERVICE)}}]}],
                },
            })
        })
        .collect();
    let routes: Vec<_> = (0..CLUSTERS)
        .map(|index| json!({"match": {"path": format!("/{index}")}, "route": {"cluster": name(index)}}))
        .collect();
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "outbound_0.0.0.0_8080;",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
        }],
    });
    let filter = json!({"name": "envoy.filters.network.http_connection_manager", "typed_config": manager});
    json!({
        "admin": {"address": at(ADMIN)},
        "static_resources": {
            "listeners": [{
                "name": "0.0.0.0_8080", "address": at(LISTENER), "filter_chains": [{"filters": [filter]}],
            }],
            "clusters": clusters,
        },
    })
}
