//! The drain observer's daemon and console.
//!
//! Sources ([`kernel`], [`probes`], [`pods`]) depend inward, views ([`metrics`], [`http`], [`doctor`]) outward;
//! sources never import each other's insides. docs/architecture.md has the picture.

pub mod cli;
pub mod doctor;
pub mod http;
pub mod kernel;
pub mod logging;
pub mod metrics;
pub mod pods;
pub mod probes;
pub mod run;
