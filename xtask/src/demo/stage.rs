//! The pod's three containers: Envoy as the gateway, an app behind it, a health sidecar beside it.

use std::{
    env, fs,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::{
    client,
    counts::GATEWAY,
    pod::{Container, Pod},
};
use crate::sandbox::Netns;

const CONFIG: &str = include_str!("envoy.yaml");
const LISTENER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2)), 8080);
const APP: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9000);
const HEALTH: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 18180);

/// The pod, running. Its containers go before it does.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    _containers: [Container<'a>; 3],
    _pod: Pod<'a>,
    netns: &'a Netns,
}

impl<'a> Stage<'a> {
    /// Starts the containers and waits until each of them listens.
    pub(super) fn start(envoy: &Path, netns: &'a Netns, workdir: &'a Path) -> Result<Self> {
        let config = workdir.join("envoy.yaml");
        fs::write(&config, CONFIG).with_context(|| format!("cannot write {}", config.display()))?;
        let me = env::current_exe().context("cannot find this program's own file")?;
        let (me, envoy, config) = (text(&me)?, text(envoy)?, text(&config)?);

        let pod = Pod::create(netns, workdir)?;
        let mut app = pod.start("app", &[me, "demo-app", "--listen", &APP.to_string()])?;
        let mut hc = pod.start("hc", &[me, "demo-health"])?;
        let mut gateway = pod.start(
            GATEWAY,
            &[
                envoy,
                "--config-path",
                config,
                "--log-level",
                "warning",
                "--concurrency",
                "2",
                "--disable-hot-restart",
            ],
        )?;
        app.listens(APP)?;
        hc.listens(HEALTH)?;
        gateway.listens(LISTENER)?;
        Ok(Self { _containers: [gateway, hc, app], _pod: pod, netns })
    }

    /// Turns the health answer to 503, as somebody inside the pod would.
    pub(super) fn flip(&self) -> Result<()> {
        let stream = self
            .netns
            .enter(|| TcpStream::connect_timeout(&HEALTH, Duration::from_secs(2)))?
            .with_context(|| format!("cannot connect to the health sidecar on {HEALTH}"))?;
        let reply = client::request(stream, "POST", "/flip", Duration::from_secs(2))?;
        if reply.status != 200 || reply.body != "CLOSING\n" {
            bail!("the health sidecar answered POST /flip with {} {:?}", reply.status, reply.body);
        }
        Ok(())
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8: use a directory whose name is", path.display()))
}
