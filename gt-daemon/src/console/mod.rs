//! The live console: what a daemon tells, on a terminal.
//!
//! [`model`] puts a stream's messages together; [`view`] is what a person looks at, moved by [`keys`]; [`strip`] and
//! [`screen`] make a screen of both. All of these are pure. [`run`] drives them on a [`terminal`]; [`replay`] has what was
//! recorded instead of a daemon. [`command`] is all of it.
//!
//! Owns: how things look. Refuses: to judge anything, and to speak to a daemon: what it is told comes as a stream.

#[cfg(test)]
mod any;
pub mod command;
pub mod keys;
pub mod model;
pub mod replay;
pub mod run;
pub mod screen;
pub mod strip;
pub mod terminal;
pub mod view;
