//! Asking a source again and again: slow while nothing happens, fast while a pod drains, at once when told, and never
//! so often that its answers cost it much: a twentieth of its time for alarms, an eightieth at the fast pace.
//!
//! [`schedule`] decides, [`remote`] is how one task tells another to hurry.

pub mod remote;
pub mod schedule;

pub use remote::{Remote, Ticks, ticks};
pub use schedule::{Call, Intervals, Pace, Schedule};
