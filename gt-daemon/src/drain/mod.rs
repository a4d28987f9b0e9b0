//! Drains: what happened from the first sign of a pod's end until its last connection was gone, and what it was.
//!
//! [`follow`] notes the [`fact`]s of each [`pod`]'s drain while it goes on, in bounded memory ([`facts`]), with the silences
//! of its sources ([`voice`], [`lb_voice`]); a [`record`] is what is left of it, with its [`verdict`], the [`reasons`] in words ([`turned_away`]: what
//! the load balancer did) and the [`intervals`]; [`blame`] says whose an end was. The [`ledger`] is what views see, and [`news`] what they are told at once. [`store`] keeps records in files, written by a thread of its own
//! ([`writer`]).
//!
//! Owns: when a drain begins and ends, and what it takes to call it protected. Refuses: to call one so when anything that
//! could show a cut was not seen.

pub(crate) mod blame;
pub(crate) mod end;
pub mod fact;
pub mod facts;
pub mod follow;
pub mod intervals;
mod lb_voice;
pub mod ledger;
pub mod news;
mod pod;
mod reasons;
pub mod record;
pub mod store;
mod turned_away;
pub mod verdict;
mod voice;
pub mod writer;
