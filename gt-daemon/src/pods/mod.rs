//! Which pods are watched here, and which sockets are theirs.
//!
//! A [`source`] tells of pods: the Kubernetes [`api`], the [`kubelet`]'s directories in its place
//! ([`fallback`]), or a [`static_file`]. [`tree`] keeps their cgroups, as [`cgroup_path`] reads them; [`netns`] finds
//! their network namespaces. [`tracker`] does one round of all that, keeps the kernel's maps in step and publishes the
//! [`owners`].

pub mod api;
pub mod cgroup_path;
pub mod fallback;
pub mod kubelet;
pub mod label_selector;
pub mod netns;
pub mod open;
pub mod owners;
pub mod selection;
pub mod source;
pub mod static_file;
pub mod tracker;
pub mod tree;
pub mod wake;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::PathBuf,
    time::{Duration, SystemTime},
};

/// A pod as a source describes it. What a source does not know is empty or `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    /// What identifies the pod; the same name with another UID is another pod. It is the kubelet's, which cgroups
    /// and log directories carry.
    pub uid: String,
    /// The API's UID where that is another one: of a static pod the API shows a mirror.
    pub api_uid: Option<String>,
    /// Its labels; `None` where the source does not tell any.
    pub labels: Option<BTreeMap<String, String>>,
    pub containers: Vec<Container>,
    /// Its cgroup, where the source knows it better than the cgroup tree.
    pub cgroup: Option<PathBuf>,
    /// A file that stands for its network namespace, where the source knows one.
    pub netns: Option<PathBuf>,
    /// Inbound ports that are not user traffic, beyond those of every pod.
    pub ports: Vec<(u16, Class)>,
    /// What is spoken on its ports of user traffic, where that is declared.
    pub protocol: Option<Declared>,
    /// The port of its health sidecar, where that is declared; it is among `ports`, too.
    pub hc_port: Option<u16>,
    /// The port of its Envoy's admin server, where that is declared; it is among `ports`, too.
    pub envoy_port: Option<u16>,
    /// The directory with the logs of its containers, each in a directory of its own: `<container>/<restarts>.log`.
    pub logs: Option<PathBuf>,
    /// Whether it lives in the host's network namespace.
    pub host_network: Option<bool>,
    /// Its addresses, in the API's order.
    pub addresses: Vec<IpAddr>,
    /// What made it.
    pub workload: Option<Workload>,
    /// How long it may take to end when nothing else is asked for.
    pub grace: Option<Duration>,
    /// Set from the moment somebody asks for its deletion.
    pub deletion: Option<Deletion>,
}

/// What made a pod and would make another like it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Workload {
    /// `Deployment`, `StatefulSet`, `DaemonSet`, `Job`; `Node` for a static pod; or what a controller calls its own.
    pub kind: String,
    pub name: String,
}

/// A deletion that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deletion {
    /// When the grace period ends: the API's `deletionTimestamp` is this instant, not that of the request.
    pub deadline: SystemTime,
    pub grace: Duration,
}

impl Deletion {
    /// When it was asked for, to the second.
    #[must_use]
    pub fn requested(&self) -> SystemTime {
        self.deadline.checked_sub(self.grace).unwrap_or(SystemTime::UNIX_EPOCH)
    }
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
