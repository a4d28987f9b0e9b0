//! The pod's three containers: Envoy as the gateway, an app behind it, a health sidecar beside it.

use std::{
    env,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    sandbox::Netns,
    stage::{
        client,
        envoy::{self, Envoy, text},
        hc,
        pod::{self, Container, Pod},
    },
};

const HEALTH: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), hc::PORT);

/// The pod, running. Its containers go before it does.
#[derive(Debug)]
pub(super) struct Stage {
    _envoy: Envoy,
    health: Container,
    _app: Container,
    _pod: Pod,
}

impl Stage {
    /// Starts the containers and waits until each of them listens.
    pub(super) fn start(envoy: &Path, netns: &Arc<Netns>, workdir: &Path) -> Result<Self> {
        let me = env::current_exe().context("cannot find this program's own file")?;
        let me = text(&me)?;
        let pod = Pod::create(netns, workdir, pod::NAMESPACE, pod::NAME)?;
        let mut app = pod.start("app", &[me, "demo-app", "--listen", &envoy::APP.to_string()], &[])?;
        let mut health = pod.start(hc::CONTAINER, &[me, "demo-health"], &[])?;
        let envoy = Envoy::start(&pod, envoy, workdir)?;
        app.listens(envoy::APP)?;
        health.listens(HEALTH)?;
        Ok(Self { _envoy: envoy, health, _app: app, _pod: pod })
    }

    /// Turns the health answer to 503, as somebody inside the pod would.
    pub(super) fn flip(&self) -> Result<()> {
        let reply = client::ask(self.health.netns(), HEALTH, "POST", "/flip")?;
        if reply.status != 200 || reply.body != "CLOSING\n" {
            bail!("the health sidecar answered POST /flip with {} {:?}", reply.status, reply.body);
        }
        Ok(())
    }
}
