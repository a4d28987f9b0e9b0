//! What Prometheus sees: a read-only view of the kernel's counts, of what is read inside pods, of drains, and of the daemon's
//! own health.

mod cuts;
mod drains;
pub mod families;
mod health;
mod inside;
mod traffic;
pub mod words;

use std::sync::Arc;

use prometheus_client::registry::Registry;

pub use self::{health::Health, traffic::Traffic};
use crate::{drain::ledger::Ledger, observe::Board};

/// The content type of the OpenMetrics text format, version 1.0.0.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of the daemon.
#[must_use]
pub fn registry(traffic: Traffic, board: Arc<Board>, ledger: Arc<Ledger>, health: Arc<Health>) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(traffic));
    registry.register_collector(Box::new(inside::Inside(Arc::clone(&board))));
    registry.register_collector(Box::new(drains::DrainMetrics(Arc::clone(&ledger))));
    registry.register_collector(Box::new(health::Collected { health, board, ledger }));
    registry
}
