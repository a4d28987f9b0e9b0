//! A real Envoy before a service that holds each request until the test lets it go.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use xtask::{
    sandbox::{Process, eventually},
    setup::envoy,
};

/// Everything on loopback happens sooner than this, also on a busy machine.
pub const SOON: Duration = Duration::from_secs(20);

/// Which parts of the configuration differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// Clusters beside the one that is used.
    pub further_clusters: usize,
    /// Make a cluster's stats with its first request, as Istio does since 1.24.
    pub late_stats: bool,
    /// Keep only what Istio keeps by default.
    pub istio_stats: bool,
    /// Port of the admin server; any for 0.
    pub admin_port: u16,
}

/// A running Envoy. Its service holds `/hold` and answers everything else at once.
pub struct RealEnvoy {
    process: Process,
    pub admin: SocketAddr,
    pub gateway: SocketAddr,
    _workdir: TempDir,
}

/// The cluster that requests go to.
const USED: &str = "outbound|80||app.ns.svc.cluster.local";

/// The name of a further one.
fn further(index: usize) -> String {
    format!("outbound|80||service-{index}.namespace-{}.svc.cluster.local", index % 23)
}

/// Why there is no Envoy to test against; `None` when there is one.
pub fn missing() -> Option<String> {
    match binary() {
        Ok(_) => None,
        Err(error) => Some(format!("{error:#}")),
    }
}

fn binary() -> Result<PathBuf> {
    envoy::found()?.context("no Envoy: `cargo xtask setup` installs one, GT_ENVOY names one")
}

impl RealEnvoy {
    pub fn start(config: Config) -> Result<Self> {
        let service = service()?;
        let workdir = TempDir::new()?;
        let file = workdir.path().join("envoy.json");
        fs::write(&file, bootstrap(config, service.port()).to_string())?;
        let admin_file = workdir.path().join("admin");
        let log = fs::File::create(workdir.path().join("envoy.log"))?;
        let mut command = Command::new(binary()?);
        command
            .args(["--concurrency", "2", "--log-level", "warning", "--disable-hot-restart"])
            .arg("--config-path")
            .arg(&file)
            .arg("--admin-address-path")
            .arg(&admin_file)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let process = Process::start("envoy", &mut command)?;
        let listening = || -> Option<(SocketAddr, SocketAddr)> {
            let admin = fs::read_to_string(&admin_file).ok()?.trim().parse().ok()?;
            let listeners = ask(admin, "GET", "/listeners?format=json", USED).ok()?;
            // One chunk: what stands between the outermost brackets is the document.
            let document = listeners.get(listeners.find('{')?..=listeners.rfind('}')?)?;
            let listeners: Value = serde_json::from_str(document).ok()?;
            let port = listeners.pointer("/listener_statuses/0/local_address/socket_address/port_value")?;
            let gateway = SocketAddr::from(([127, 0, 0, 1], u16::try_from(port.as_u64()?).ok()?));
            TcpStream::connect(gateway).ok()?;
            Some((admin, gateway))
        };
        let (admin, gateway) = eventually("Envoy to listen", SOON, listening)
            .with_context(|| fs::read_to_string(workdir.path().join("envoy.log")).unwrap_or_default())?;
        Ok(Self { process, admin, gateway, _workdir: workdir })
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.signal(signal)
    }

    /// Sends a request that the service does not answer. It ends when the connection is dropped.
    pub fn hold(&self) -> Result<TcpStream> {
        let mut client = TcpStream::connect(self.gateway)?;
        client
            .write_all(format!("GET /hold HTTP/1.1\r\nHost: test\r\nx-cluster: {USED}\r\n\r\n").as_bytes())?;
        Ok(client)
    }

    /// A request that is answered.
    pub fn request(&self) -> Result<()> {
        ask(self.gateway, "GET", "/", USED).map(drop)
    }

    /// A command to the admin server.
    pub fn command(&self, path: &str) -> Result<()> {
        ask(self.admin, "POST", path, USED).map(drop)
    }
}

/// One request on a connection of its own; gives the whole answer.
fn ask(address: SocketAddr, method: &str, path: &str, cluster: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(SOON))?;
    stream.write_all(
        format!("{method} {path} HTTP/1.1\r\nHost: test\r\nx-cluster: {cluster}\r\n\r\n").as_bytes(),
    )?;
    let (mut answer, mut block) = (String::new(), [0; 4096]);
    // The service's answers end so, and chunked ones of the admin server.
    while !answer.ends_with("\r\n\r\nok\n") && !answer.ends_with("0\r\n\r\n") {
        let read = stream.read(&mut block)?;
        ensure!(read > 0, "{address} closed the connection after {answer:?}");
        answer.push_str(&String::from_utf8_lossy(block.get(..read).unwrap_or_default()));
    }
    Ok(answer)
}

/// What Envoy sends requests to.
fn service() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut head = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut head) {
                    let held = head.get(..read).is_some_and(|head| head.starts_with(b"GET /hold"));
                    if !held && stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n").is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    Ok(address)
}

fn cluster(name: &str, port: u16) -> Value {
    let address = json!({"socket_address": {"address": "127.0.0.1", "port_value": port}});
    json!({
        "name": name, "alt_stat_name": format!("{name};"), "type": "STATIC", "connect_timeout": "1s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}]},
    })
}

/// Two listeners, one service; names as Istio gives them.
fn bootstrap(config: Config, service: u16) -> Value {
    let listener = |name: &str| {
        let route =
            json!({"match": {"prefix": "/"}, "route": {"cluster_header": "x-cluster", "timeout": "0s"}});
        let manager = json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": format!("outbound_{name};"),
            "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
            "http_filters": [{
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
            }],
        });
        json!({
            "name": name,
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
            "filter_chains": [{"filters": [{
                "name": "envoy.filters.network.http_connection_manager", "typed_config": manager,
            }]}],
        })
    };
    let further = (0..config.further_clusters).map(|index| cluster(&further(index), service));
    let clusters: Vec<_> =
        [cluster(USED, service), cluster("xds-grpc", service)].into_iter().chain(further).collect();
    let mut bootstrap = json!({
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": config.admin_port}}},
        "static_resources": {"listeners": [listener("0.0.0.0_8080"), listener("0.0.0.0_8443")], "clusters": clusters},
    });
    if config.late_stats {
        bootstrap["deferred_stat_options"] = json!({"enable_deferred_creation_stats": true});
    }
    if config.istio_stats {
        let patterns = ["cluster_manager", "listener_manager", "server", "cluster.xds-grpc"]
            .map(|name| json!({"prefix": name}));
        bootstrap["stats_config"] = json!({"stats_matcher": {"inclusion_list": {"patterns": patterns}}});
    }
    bootstrap
}
