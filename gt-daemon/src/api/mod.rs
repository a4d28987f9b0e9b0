//! What the daemon tells consoles: the [`message`]s of its stream.
//!
//! Owns: the wire format between a daemon and its views. Refuses: to judge anything.

pub mod message;
