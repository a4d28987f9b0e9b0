//! What is applied to a cluster or a host, as commands and tests read it: everything below `deploy/`.
//!
//! Owns: how manifests are rendered, how rules, dashboards and the numbers of a gateway are found in them, and how a container is
//! made of one. Refuses: to
//! speak with a cluster.

pub mod container;
pub mod dashboards;
pub mod gateway;
pub mod manifests;
pub mod operator;
pub mod rules;
