//! What is applied to a cluster or a host, as commands and tests read it: everything below `deploy/`.
//!
//! Owns: how manifests are rendered, and how rules, dashboards and the numbers of a gateway are found in them. Refuses: to
//! speak with a cluster.

pub mod dashboards;
pub mod gateway;
pub mod manifests;
pub mod operator;
pub mod rules;
