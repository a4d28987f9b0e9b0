//! HAProxy's configuration: a load balancer as the infrastructure team runs it, DOWN shuts every session of the server.

use std::{
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    time::Duration,
};

use crate::stage::{envoy, hc, network};

/// Where HAProxy's own Prometheus exporter listens, inside its namespace.
pub const EXPORTER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8404);

/// What differs from stage to stage.
#[derive(Clone, Debug)]
pub struct Config {
    /// Time between two health checks; two that fail in a row are DOWN, one that succeeds is UP.
    pub inter: Duration,
    /// Speak HTTP/2 to the servers.
    pub http2: bool,
    /// Further lines for frontend and backend, such as `option abortonclose`.
    pub options: Vec<&'static str>,
    /// Further lines for the backend alone, such as `use-server pod if TRUE`.
    pub backend: Vec<String>,
    /// Further words of each server, such as `pool-purge-delay 200ms`.
    pub server_options: String,
    /// Where clients reach it.
    pub listen: SocketAddr,
    /// The servers' names, and where their gateways listen.
    pub servers: Vec<(String, SocketAddr)>,
}

impl Default for Config {
    /// The one pod of a stage with one pod, over HTTP/1.1, with HAProxy's own defaults.
    fn default() -> Self {
        Self {
            inter: Duration::from_millis(100),
            http2: false,
            options: Vec::new(),
            backend: Vec::new(),
            server_options: String::new(),
            listen: super::FRONTEND,
            servers: vec![(super::SERVER.to_owned(), SocketAddr::new(network::POD, envoy::PORT))],
        }
    }
}

impl Config {
    /// The file's text, with HAProxy's own command socket at `socket`, and its log to the socket `log`.
    pub(super) fn text(&self, socket: &Path, log: &Path) -> String {
        // Writing to a String cannot fail.
        let options = self.options.iter().fold(String::new(), |mut lines, option| {
            let _infallible = writeln!(lines, "    {option}");
            lines
        });
        let mut text = format!(
            "global
    log {} format iso local0
    stats socket {} mode 600 level admin

defaults
    mode http
    log global
    option httplog
    retries 3
    timeout connect 2s
    timeout client 15m
    timeout server 15m
{options}
frontend fe
    bind {}
    default_backend {backend}

frontend exporter
    bind {EXPORTER}
    no log
    http-request use-service prometheus-exporter

backend {backend}
    option httpchk GET /health_check.html
",
            log.display(),
            socket.display(),
            self.listen,
            backend = super::BACKEND,
        );
        for line in &self.backend {
            let _infallible = writeln!(text, "    {line}");
        }
        for (name, address) in &self.servers {
            let _infallible = writeln!(
                text,
                "    server {name} {address} check check-proto h1 port {port} inter {inter}ms fall 2 rise 1 \
                 on-marked-down shutdown-sessions{proto} {further}",
                port = hc::PORT,
                inter = self.inter.as_millis(),
                proto = if self.http2 { " proto h2" } else { "" },
                further = self.server_options,
            );
        }
        text
    }
}
