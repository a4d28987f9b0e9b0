//! The commands that talk to the running server: the preStop command, and calls by hand.

mod call;
mod client;
mod follow;

pub use call::{Call, call};
pub use client::{Client, ClientError};
pub use follow::drain;
