//! The client of a daemon: reaches it, asks it, and hands on what it streams.
//!
//! Owns: the ways to a daemon, and coming back to one that went away. Refuses: to show anything.

pub mod messages;

pub use messages::Messages;
