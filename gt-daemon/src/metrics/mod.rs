//! What Prometheus sees: a read-only view of the kernel's counts and the daemon's own health.

mod health;
mod traffic;
pub mod words;

use std::sync::Arc;

use prometheus_client::registry::Registry;

pub use self::{health::Health, traffic::Traffic};

/// The content type of the OpenMetrics text format, version 1.0.0.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of the daemon.
#[must_use]
pub fn registry(traffic: Traffic, health: Arc<Health>) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(traffic));
    registry.register_collector(Box::new(health::Collected(health)));
    registry
}
