//! A real Envoy in front of a service that holds each request until the test lets it go.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;
use tempfile::TempDir;
use xtask::sandbox::{Process, eventually};

use crate::{http, sidecar::SOON};

/// Which parts of the configuration differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// Make a cluster's stats with its first request, as Istio does since 1.24.
    pub deferred_stats: bool,
    /// Keep only the stats that Istio keeps by default.
    pub istio_stats: bool,
}

pub struct RealEnvoy {
    process: Process,
    pub admin: SocketAddr,
    pub gateway: SocketAddr,
    service: Service,
    _workdir: TempDir,
}

impl RealEnvoy {
    pub fn start(binary: &Path, config: Config) -> Result<Self> {
        let service = Service::start()?;
        let workdir = TempDir::new()?;
        let file = workdir.path().join("envoy.json");
        fs::write(&file, yaml(config, service.address.port()))?;
        let admin_file = workdir.path().join("admin");
        let log = fs::File::create(workdir.path().join("envoy.log"))?;
        let mut command = Command::new(binary);
        command
            .arg("--config-path")
            .arg(&file)
            .arg("--admin-address-path")
            .arg(&admin_file)
            .args(["--concurrency", "2", "--log-level", "warning", "--disable-hot-restart"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let process = Process::start("envoy", &mut command)?;
        let listening = || -> Option<(SocketAddr, SocketAddr)> {
            let admin = fs::read_to_string(&admin_file).ok()?.trim().parse().ok()?;
            let listeners = http::ask(admin, "GET", "/listeners?format=json").ok()?.body;
            let port = listeners.split("\"port_value\":").nth(1)?.trim();
            let port: u16 = port.get(..port.find(|c: char| !c.is_ascii_digit())?)?.parse().ok()?;
            let gateway = SocketAddr::from(([127, 0, 0, 1], port));
            std::net::TcpStream::connect(gateway).ok()?;
            Some((admin, gateway))
        };
        let (admin, gateway) = eventually("Envoy to listen", SOON, listening)
            .with_context(|| fs::read_to_string(workdir.path().join("envoy.log")).unwrap_or_default())?;
        Ok(Self { process, admin, gateway, service, _workdir: workdir })
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Sends a request through Envoy; the answer comes when the thread is joined, after [`Self::release`].
    pub fn request(&self) -> Result<thread::JoinHandle<Result<http::Answer>>> {
        let gateway = self.gateway;
        let before = self.service.held();
        let request = thread::spawn(move || http::ask(gateway, "GET", "/"));
        eventually("the service to hold the request", SOON, || (self.service.held() > before).then_some(()))?;
        Ok(request)
    }

    /// Lets all requests end.
    pub fn release(&self) {
        let (held, changed) = &*self.service.gate;
        held.lock().unwrap_or_else(PoisonError::into_inner).open = true;
        changed.notify_all();
    }
}

#[derive(Default)]
struct Gate {
    held: usize,
    open: bool,
}

struct Service {
    address: SocketAddr,
    gate: Arc<(Mutex<Gate>, Condvar)>,
}

impl Service {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let gate: Arc<(Mutex<Gate>, Condvar)> = Arc::default();
        let shared = Arc::clone(&gate);
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let gate = Arc::clone(&shared);
                thread::spawn(move || {
                    let mut head = [0; 4096];
                    if !matches!(stream.read(&mut head), Ok(1..)) {
                        return;
                    }
                    let (held, changed) = &*gate;
                    let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                    held.held += 1;
                    while !held.open {
                        held = changed.wait(held).unwrap_or_else(PoisonError::into_inner);
                    }
                    drop(held);
                    // Envoy may have been killed meanwhile.
                    let _gone = stream.write_all(
                        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\ndone\n",
                    );
                });
            }
        });
        Ok(Self { address, gate })
    }

    fn held(&self) -> usize {
        self.gate.0.lock().unwrap_or_else(PoisonError::into_inner).held
    }
}

/// A gateway's configuration: prefixes as Istio names them, with `;`.
fn yaml(config: Config, service: u16) -> String {
    let mut bootstrap = serde_json::json!({
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
        "static_resources": {
            "listeners": [{
                "name": "0.0.0.0_8080",
                "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
                "filter_chains": [{"filters": [{
                    "name": "envoy.filters.network.http_connection_manager",
                    "typed_config": {
                        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                        "stat_prefix": "outbound_0.0.0.0_8080;",
                        "http_filters": [{
                            "name": "envoy.filters.http.router",
                            "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}
                        }],
                        "route_config": {"virtual_hosts": [{
                            "name": "all", "domains": ["*"],
                            "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "app", "timeout": "0s"}}]
                        }]}
                    }
                }]}]
            }],
            "clusters": [{
                "name": "app",
                "alt_stat_name": "outbound|80||app.shop.svc.cluster.local;",
                "type": "STATIC",
                "connect_timeout": "1s",
                "load_assignment": {"cluster_name": "app", "endpoints": [{"lb_endpoints": [{"endpoint": {
                    "address": {"socket_address": {"address": "127.0.0.1", "port_value": service}}
                }}]}]}
            }]
        }
    });
    if config.deferred_stats {
        bootstrap["deferred_stat_options"] = serde_json::json!({"enable_deferred_creation_stats": true});
    }
    if config.istio_stats {
        let prefixes = ["cluster_manager", "listener_manager", "server", "cluster.xds-grpc"];
        let patterns: Vec<_> = prefixes.iter().map(|prefix| serde_json::json!({"prefix": prefix})).collect();
        bootstrap["stats_config"] =
            serde_json::json!({"stats_matcher": {"inclusion_list": {"patterns": patterns}}});
    }
    bootstrap.to_string()
}
