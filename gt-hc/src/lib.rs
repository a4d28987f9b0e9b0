//! The health sidecar (hc) of a gateway behind a load balancer (LB).
//!
//! The LB judges a backend by its health check alone. The sidecar answers that check, and during a drain
//! changes the answer only when cutting would cut nothing: 200 while requests are in flight, 503 once
//! Envoy tells that there are none.

pub mod answers;
pub mod check;
pub mod cli;
pub mod clock;
pub mod command;
pub mod drain;
pub mod envoy;
pub mod exit;
pub mod fetch;
pub mod fsm;
pub mod log;
pub mod run;
pub mod say;
pub mod seconds;
pub mod server;
pub mod settings;
pub mod sidecar;
