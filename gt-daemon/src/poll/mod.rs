//! Asking a source again and again: slow while nothing happens, fast while a pod drains, at once when told, and never
//! so often that its answers cost it much: a twentieth of its time for alarms, a hundredth at the fast pace.
//!
//! [`schedule`] decides, [`remote`] is how one task tells another to hurry, [`poller`] is that other task, and [`meter`]
//! counts what it does.

pub mod meter;
pub mod poller;
pub mod remote;
pub mod schedule;

pub use meter::Meter;
pub use poller::{Ask, Poller};
pub use remote::{Remote, Ticks, ticks};
pub use schedule::{Call, Intervals, Pace, Schedule};
