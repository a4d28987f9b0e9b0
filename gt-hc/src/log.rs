//! The log: one event a line on stdout, in logfmt.
//!
//! Lines are written by a thread of its own. When whoever reads the pipe stalls, lines wait, then are
//! dropped and counted; an answer to a health check never waits for the log.

mod limit;
mod line;
mod writer;

pub use limit::Limit;
pub use line::Line;
pub use writer::{Log, Writer};
