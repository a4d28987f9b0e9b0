//! The states of the sidecar, and which change of state is allowed. Pure: time is an argument.
//!
//! ```text
//!            drain            active zero          LB buffer over
//!   OPEN ----------> DRAINING ----------> CLOSING ----------------> CLOSED
//!    ^  ^               | |                  |
//!    |  +---- reopen ---+ | drain timeout    |
//!    +------- reopen -----|------------------+
//!    |                    v
//!    +------ reopen --- FAULT
//! ```
//!
//! Owns: the state and the rule. Refuses: any change that [`State::next`] does not list.

mod cause;
mod machine;
mod state;

pub use cause::Cause;
pub use machine::{Machine, Outcome, Refusal, Reopened};
pub use state::State;
