//! Drains: what happened from the first sign of a pod's end until its last connection was gone, and what it was.
//!
//! [`follow`] notes the [`fact`]s of each pod's drain while it goes on; a [`record`] is what is left of it, with its
//! [`verdict`], the [`reasons`] in words and the [`intervals`]. [`store`] keeps records in files.
//!
//! Owns: when a drain begins and ends, and what it takes to call it protected. Refuses: to call one so when anything that
//! could show a cut was not seen.

pub mod fact;
pub mod follow;
pub mod intervals;
mod reasons;
pub mod record;
pub mod verdict;
