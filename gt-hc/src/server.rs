//! The HTTP server: who may connect, for how long, and with how many bytes.
//!
//! Owns: connections and their limits. Refuses: to let any number of slow or silent peers keep an LB or the
//! pod's own commands from an answer.

mod accept;
mod connection;
mod slots;

pub use accept::{ListenError, listen, serve};
