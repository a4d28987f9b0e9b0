//! What Envoy itself counts: requests in flight, and requests that were cut.
//!
//! [`form`] reads the three forms of its answers, [`stat`] and [`scope`] say which rows count, [`sums`] adds them up, all
//! pure. [`reader`] asks one pod's Envoy again and again, and gives [`sample`]s.
//!
//! Owns: which stats are asked for, and what a missing one means. Refuses: to take anything for zero but what Envoy
//! told as zero, or what it says nobody has touched since it started.

mod catalogue;
mod continuity;
pub mod form;
mod history;
pub mod query;
pub mod reader;
pub mod sample;
pub mod scope;
mod session;
pub mod stat;
pub mod sums;

#[cfg(test)]
mod recorded_tests;
