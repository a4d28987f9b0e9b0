//! Which pods are watched here, and which sockets are theirs.
//!
//! Sources tell of pods ([`kubelet`], [`static_file`]); [`tree`] keeps their cgroups, as [`cgroup_path`] reads
//! them; [`netns`] finds their network namespaces. [`tracker`] does one round of all that, keeps the kernel's
//! maps in step and publishes the [`owners`].

pub mod cgroup_path;
pub mod kubelet;
pub mod netns;
pub mod owners;
pub mod source;
pub mod static_file;
pub mod tracker;
pub mod tree;
mod watched;

use std::path::PathBuf;

/// A pod as a source describes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    /// What identifies the pod; the same name with another UID is another pod.
    pub uid: String,
    pub containers: Vec<Container>,
    /// Its cgroup, where the source knows it better than the cgroup tree.
    pub cgroup: Option<PathBuf>,
    /// A file that stands for its network namespace, where the source knows one.
    pub netns: Option<PathBuf>,
    /// Inbound ports that are not user traffic, beyond those of every pod.
    pub ports: Vec<(u16, Class)>,
    /// What is spoken on its ports of user traffic, where that is declared.
    pub protocol: Option<Declared>,
}

/// What an inbound port is for, other than user traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Health,
    Admin,
}

/// A declared protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Declared {
    Http1,
    Http2,
    Tls,
}

/// A container of a [`Pod`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Container {
    pub name: String,
    /// The runtime's id (64 hex digits); `None` while unknown.
    pub id: Option<String>,
    /// Its cgroup, where the source knows it.
    pub cgroup: Option<PathBuf>,
}
