//! The drain observer's daemon and console.
//!
//! Sources ([`kernel`], [`probes`], [`pods`], [`hc`], [`envoy`], [`lb`]) depend inward, views ([`metrics`], [`http`],
//! [`report`], [`doctor`])
//! outward; sources never import each other's insides. [`observe`] brings sources to the join ([`correlate`]).
//! [`trace`] and [`listing`] are the consoles' side, which reach a daemon by a [`client`] at its [`api`].
//! docs/architecture.md has the picture.

pub mod api;
pub mod cli;
pub mod client;
pub mod clock;
pub mod console;
pub mod correlate;
pub mod dial;
pub mod doctor;
pub mod drain;
pub mod envoy;
pub mod exposition;
pub mod hc;
pub mod heap;
pub mod http;
pub mod kernel;
pub mod lb;
pub mod listing;
pub mod logging;
pub mod metrics;
pub mod observe;
pub mod open_files;
pub mod pods;
pub mod poll;
pub mod probes;
pub mod quoted;
pub mod report;
pub mod run;
pub mod shell;
pub mod timeline;
pub mod trace;
