//! Captures of tcpdump: which connections ended, how, and whether a request was in flight on them.
//!
//! [`packets`] gives the segments of a file, [`table`] sorts them by connection, [`conversation`] follows one, [`stream`] puts
//! its bytes in order, and [`http1`] and [`http2`] count its requests and answers.
//!
//! Owns: what the bytes of a capture prove. Refuses: to take a connection for idle when any of its bytes is missing.

pub mod conversation;
mod http1;
mod http2;
mod packets;
mod stream;
pub mod table;
