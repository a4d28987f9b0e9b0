//! The load balancer (LB), as far as it can be asked or tells by itself: whether it sends requests to a pod.
//!
//! A [`reader`] asks one [`source`] by one [`call`] after the other; [`form`] knows which text came back, [`csv`] and
//! [`exporter`] read it into [`row`]s, [`word`] says what a status means. [`pattern`] picks the rows that are a pod's, [`follow`]
//! turns looks at them into what changed and when, server by server ([`known`]), [`history`] says what the LB did at an instant. An LB that cannot be asked
//! tells by a [`webhook`]; where nobody tells, [`predict`] does arithmetic.
//!
//! Owns: what the words of an LB mean. Refuses: to ask while no pod here drains, and to take what is cut off, malformed or
//! unclear for DOWN.

mod call;
mod csv;
mod exporter;
pub mod follow;
pub mod form;
pub mod history;
mod known;
pub mod pattern;
pub mod predict;
pub mod reader;
pub mod row;
pub mod source;
pub mod webhook;
pub mod word;
