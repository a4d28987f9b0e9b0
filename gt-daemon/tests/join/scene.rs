//! A stage with one pod, from its start to its end, and the moves that cases are made of.

use std::{env, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use xtask::{
    sandbox::{Netns, Process},
    stage::{
        client::{self, Exchange},
        daemon::Daemon,
        envoy::{self, Envoy},
        hc::Hc,
        interrupt,
        lb::{self, LoadBalancer},
        network::{self, Network},
        pod::{self, Container, Pod},
        wire::Capture,
        workdir::Workdir,
    },
};

use crate::parts;

/// Everything happens sooner than this, also on a busy machine.
pub const SOON: Duration = Duration::from_secs(20);

/// Fast looks at Envoy, and a CLOSING that lasts until somebody ends it.
pub const BY_HAND: [(&str, &str); 3] =
    [("POLL_INTERVAL", "0.1"), ("DRAIN_TIMEOUT", "100"), ("LB_BUFFER", "100")];

/// The same, and an LB that has had its time soon.
pub const BY_ITSELF: [(&str, &str); 3] =
    [("POLL_INTERVAL", "0.1"), ("DRAIN_TIMEOUT", "100"), ("LB_BUFFER", "0.5")];

/// Dropped in this order: what looks on, the load balancer, the containers, the pod, the namespaces, the files.
pub struct Scene {
    pub daemon: Daemon,
    pub wire: Capture,
    pub lb: LoadBalancer,
    pub envoy: Envoy,
    hc: Hc,
    _app: Container,
    pod: Pod,
    netns: Arc<Netns>,
    _network: Network,
    settings: &'static [(&'static str, &'static str)],
    workdir: Workdir,
}

impl Scene {
    /// Starts all parts, and waits until the load balancer finds the pod UP and the daemon watches it.
    pub fn start(lb: &lb::Config, settings: &'static [(&'static str, &'static str)]) -> Result<Self> {
        let workdir = Workdir::create()?;
        let path = workdir.path();
        let network = Network::create("gt-join")?;
        let netns = Arc::clone(&network.pod);
        let pod = Pod::create(&netns, path, pod::NAMESPACE, pod::NAME)?;
        let me = env::current_exe()?;
        let mut app = pod.start("app", &[envoy::text(&me)?, parts::APP, &envoy::APP.to_string()], &[])?;
        app.listens(envoy::APP)?;
        let envoy = Envoy::start(&pod, &parts::envoy()?, path)?;
        let hc = Hc::start(&pod, &parts::hc(), settings)?;
        let ends = "tcp port 8080 and tcp[tcpflags] & (tcp-syn|tcp-fin|tcp-rst) != 0";
        let wire = Capture::start(&netns, network::DEVICE, ends, None)?;
        let pods = format!("kubelet:{}", path.join("pods").display());
        let mut daemon = Daemon::start(&parts::daemon(), &["--log", "info", "--pods", &pods], path)?;
        daemon.watches(pod::NAME)?;
        daemon.reads(pod::NAME)?;
        // Last, so that the daemon has seen each of its connections begin.
        let lb = LoadBalancer::start(&network.lb, path, lb)?;
        Ok(Self { daemon, wire, lb, envoy, hc, _app: app, pod, netns, _network: network, settings, workdir })
    }

    /// Brings the stage back to where a round begins: nothing in flight, hc in OPEN, the pod UP.
    pub fn ready(&mut self) -> Result<()> {
        self.app("POST", "/release")?;
        match self.hc.state()?.as_str() {
            "OPEN" => {}
            "CLOSED" => {
                self.hc.stop()?;
                self.hc = Hc::start(&self.pod, &parts::hc(), self.settings)?;
            }
            _ => drop(self.hc.call("/reopen")?),
        }
        self.lb.wait_for(lb::SERVER, lb::Checked::is_up)?;
        self.in_flight(0)
    }

    /// Begins requests that the app holds, each on a connection of its own, and waits until it holds them all.
    pub fn hold(&self, count: u64) -> Result<Vec<Exchange>> {
        let exchanges = (0..count).map(|_| self.lb.begin("/hold", SOON)).collect::<Result<Vec<_>>>()?;
        interrupt::wait_for("the app to hold the requests", SOON, || {
            Ok((self.held()? == count).then_some(()))
        })?;
        self.in_flight(count)?;
        Ok(exchanges)
    }

    /// Begins an answer that comes bit by bit until the app is told to end it, and waits until the client has its first bits.
    pub fn stream(&self) -> Result<Exchange> {
        let mut exchange = self.lb.begin("/stream?every=30", SOON)?;
        exchange.body_begins()?;
        Ok(exchange)
    }

    /// Lets all requests go that the app holds, and all its streams come to their end.
    pub fn release(&self) -> Result<()> {
        self.app("POST", "/release").map(drop)
    }

    /// "Current mode": the sidecar tells 503 whatever is in flight. Returns when the load balancer has marked the pod DOWN.
    pub fn turn_away(&mut self) -> Result<()> {
        self.hc.call("/drain")?;
        self.hc.call("/close-lb")?;
        self.lb.wait_for(lb::SERVER, lb::Checked::is_down)
    }

    /// "Improved mode": the preStop command. Returns when the sidecar drains.
    pub fn drain(&self) -> Result<Process> {
        let drain = self.hc.drain()?;
        interrupt::wait_for("gt-hc to drain", SOON, || Ok((self.hc.state()? == "DRAINING").then_some(())))?;
        Ok(drain)
    }

    /// The sidecar's state.
    pub fn hc_state(&self) -> Result<String> {
        self.hc.state()
    }

    /// Kills the gateway. With [`restart`](Self::restart) there is one again.
    pub fn kill(&mut self) -> Result<()> {
        self.envoy.kill()
    }

    pub fn restart(&mut self) -> Result<()> {
        self.envoy = Envoy::start(&self.pod, &parts::envoy()?, self.workdir.path())?;
        Ok(())
    }

    /// Waits until Envoy counts so many requests in flight.
    pub fn in_flight(&self, count: u64) -> Result<()> {
        let mut last = None;
        let waited = interrupt::wait_for("Envoy's count of requests in flight", SOON, || {
            last = self.envoy.stats()?.get("downstream_rq_active").copied();
            // It makes its stats with its listener; a listener without requests has zero.
            Ok((last.unwrap_or_default() == count).then_some(()))
        });
        waited.with_context(|| format!("Envoy counts {last:?}, not {count}"))
    }

    fn held(&self) -> Result<u64> {
        Ok(self.app("GET", "/held")?.trim().parse()?)
    }

    fn app(&self, method: &str, path: &str) -> Result<String> {
        let reply = client::ask(&self.netns, envoy::APP, method, path)?;
        ensure!(reply.status == 200, "the app answered {method} {path} with {}", reply.status);
        Ok(reply.body)
    }
}

/// Reads answers to their ends; all must be whole and good.
pub fn all_served(exchanges: Vec<Exchange>) -> Result<()> {
    for exchange in exchanges {
        let reply = exchange.finish().context("a client that should be served is not")?;
        ensure!(reply.status == 200, "a client that should be served got {}", reply.status);
    }
    Ok(())
}

/// Reads answers to their ends; all must be HAProxy's word that the server is gone.
pub fn all_refused(exchanges: Vec<Exchange>) -> Result<()> {
    for exchange in exchanges {
        let reply = exchange.finish().context("a client that should be told of a cut is not")?;
        ensure!(reply.status == 502, "a client whose request was cut got {}", reply.status);
    }
    Ok(())
}

/// Reads an answer that must end before it is whole.
pub fn broken_off(exchange: Exchange) -> Result<()> {
    match exchange.finish() {
        Ok(reply) => bail!("a stream that should be cut came whole, with {}: {}", reply.status, reply.body),
        Err(_) => Ok(()),
    }
}
