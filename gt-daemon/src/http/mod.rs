//! The daemon's HTTP server.
//!
//! - `GET /metrics`: OpenMetrics text.
//! - `GET /healthz`: 200 while the process lives.
//! - `GET /readyz`: 200 when hooks passed the self-check and pods are read, else 503 and why.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
    routing::get,
};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::metrics::{self, Health};

/// What the server shows.
#[derive(Clone, Debug)]
pub struct Views {
    pub registry: Arc<Registry>,
    pub health: Arc<Health>,
    /// How long the text of the next scrape will be, about, in bytes.
    pub length: Arc<AtomicUsize>,
}

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {cause}; {remedy} with {option}")]
pub struct ListenError {
    address: SocketAddr,
    cause: io::Error,
    remedy: &'static str,
    option: &'static str,
}

/// Takes the address, before anything is attached in the kernel.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    listen_for(address, "--listen").await
}

/// The same for another option.
pub async fn listen_for(address: SocketAddr, option: &'static str) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|cause| {
        let remedy = match cause.kind() {
            io::ErrorKind::AddrInUse => "another process has it: stop that one or choose another",
            io::ErrorKind::PermissionDenied => "choose a port above 1023",
            _ => "choose an address of this machine",
        };
        ListenError { address, cause, remedy, option }
    })
}

/// Serves until the future is dropped.
pub async fn serve(listener: TcpListener, views: Views) -> io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .with_state(views);
    axum::serve(listener, router).await
}

async fn metrics(State(views): State<Views>) -> Response {
    let mut text = String::with_capacity(views.length.load(Ordering::Relaxed));
    match prometheus_client::encoding::text::encode(&mut text, &views.registry) {
        Ok(()) => {
            // Room for a few more pods: a text of megabytes that grows by doubling is copied again and again.
            views.length.store(text.len() + text.len() / 8, Ordering::Relaxed);
            ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
        }
        Err(_) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "cannot read the kernel's counts: see the daemon's log\n")
                .into_response()
        }
    }
}

async fn readyz(State(views): State<Views>) -> Response {
    let reasons = views.health.not_ready();
    if reasons.is_empty() {
        return "ready\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n").into_response()
}
