//! The observer: reads what is inside pods, and brings it together with what the kernel saw.
//!
//! [`task`] is one task that owns all of it. For each watched pod it decides what to read ([`wanted`]), keeps the
//! readers going ([`readers`]), and their pace by what they say ([`current`]); a source that does not answer is told of
//! once ([`faults`]). Kernel events come by a [`feed`]; everything goes to the join
//! ([`correlate`](crate::correlate)), which says when a pod's readers must hurry. The kernel programs are told the state of
//! each sidecar ([`kernel`]), the views see the [`board`], and whoever listens is told what happens ([`teller`]: how
//! pods are, by [`status`], and what was [`seen`]). All of it goes to the drains of pods too ([`drains`]), with what the
//! kernel has [lost](losses). While a pod drains its load balancers are asked ([`lb`]).
//!
//! Owns: the life of readers. Refuses: to judge, and to wait for any pod.

pub mod board;
mod current;
mod drains;
mod faults;
pub mod feed;
pub mod kernel;
mod lb;
pub mod lb_board;
mod losses;
mod pod;
mod pulse;
mod readers;
mod seen;
mod slots;
mod status;
pub mod task;
mod tell;
mod teller;
mod wanted;

pub use board::Board;
pub use feed::Feed;
pub use kernel::Kernel;
pub use task::{Observer, Parts, Settings};
pub use wanted::Signs;
