//! Envoy's own count of the requests in flight, from its admin server.
//!
//! Owns: which stats are asked for and which of them count. Refuses: to take anything for zero but zeros
//! that Envoy has told: an Envoy that cannot be read, an answer that cannot be understood and a stat that
//! is missing are each an error.

mod active;
mod ignored;
mod read;
mod stats;

pub use active::{Active, CountError};
pub use ignored::Ignored;
pub use read::{Admin, ReadError};
