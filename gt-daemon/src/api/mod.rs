//! What the daemon tells consoles, and the way they ask it.
//!
//! [`message`] is what a stream is made of, [`ask`] which pods it shows. The observer tells all readers through the [`hub`]; the
//! [`desk`] is how it is asked. Clients come in at a [`door`], from this machine alone; [`doors`] serves the
//! [`routes`] there.
//!
//! Owns: the wire format between a daemon and its views, and that no reader holds up the daemon. Refuses: to judge anything,
//! and to be reached from the network.

pub mod ask;
pub mod desk;
pub mod door;
pub mod doors;
pub mod hub;
pub mod message;
mod pages;
pub mod routes;
