//! What the health sidecar (hc) says of itself: its log, its `/state`, else its two health codes.
//!
//! [`log`] follows the container's log, which has the exact instants; [`reader`] asks the sidecar; both give
//! [`observation`]s, [`merge`] puts those of one pod into one order, and
//! a [`record`] keeps as many of them as that takes. [`answers`], [`states`] and [`names`] say what
//! words and codes mean.
//!
//! Owns: the reading of hc. Refuses: to guess a state that nobody told, and to move an instant that a log gave.

pub mod answers;
pub mod log;
pub mod merge;
pub mod names;
pub mod observation;
pub mod reader;
pub mod record;
pub mod states;
