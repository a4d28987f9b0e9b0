//! hc's transitions from its container's log, `/var/log/pods/<namespace>_<pod>_<uid>/<container>/`.
//!
//! From the outside in: [`runtime`] takes off what the container runtime wrote around a line, [`assemble`] joins lines
//! it had split, [`line`] finds a transition in one, [`stamp`] says when it was. [`file`] and [`pod`] follow one pod's
//! files through rotation and restarts, [`follower`] does so for all pods on a thread of its own.

mod assemble;
mod bell;
pub(crate) mod fields;
mod file;
pub mod follower;
pub mod line;
mod pod;
pub mod runtime;
pub mod stamp;

#[cfg(test)]
mod shapes;
