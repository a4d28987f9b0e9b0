//! Connections to ports inside pods, and HTTP on them: no process in the pod, no mesh in between.
//!
//! A socket belongs to the network namespace in which it was made. A thread of its own ([`thread`]) enters the pod's
//! namespace, makes a socket and comes back; everything that can take time happens on the socket afterwards, in
//! tokio. [`Dialler`] says where to connect, [`Client`] speaks HTTP/1.1 and keeps one connection per pod and port.
//!
//! Owns: that thread. Refuses: to wait without a limit, and to take an answer without one.

mod address;
mod client;
mod dialler;
mod error;
mod thread;

pub use address::Address;
pub use client::{Answer, CallError, Client, Failure, Limits};
pub use dialler::{Dialler, Target};
pub use error::{Cause, DialError};
