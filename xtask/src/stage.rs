//! The parts of a stage on which drains are played: namespaces, a pod as a kubelet leaves it, a real Envoy
//! with an app behind it, the health sidecar, a real HAProxy, gt-daemon, clients, and a capture of what was on the wire.
//!
//! Owns: the parts, each in a file of its own, and how each is started, asked and removed. Refuses: to know what
//! is played with them. The demo, the benchmark and the tests of gt-daemon each put them together themselves.

pub mod api;
pub mod app;
pub mod client;
pub mod clock;
pub mod counts;
pub mod cri_log;
pub mod daemon;
pub mod envoy;
pub mod hc;
pub mod interrupt;
pub mod lb;
pub mod network;
pub mod pod;
pub mod prometheus;
pub mod resets;
pub mod scrape;
pub mod serve;
pub mod wire;
pub mod workdir;
