//! What a cgroup's path tells: its pods, its container, its class.
//!
//! A pod's directory is known by its name and by the directories above it, which a kubelet's driver fixes:
//!
//! - cgroupfs: `kubepods/[<qos>/]pod<uid>/<id>`;
//! - systemd: `kubepods.slice/[kubepods-<qos>.slice/]kubepods-[<qos>-]pod<uid_>.slice/<runtime>-<id>.scope`,
//!   with a `--cgroup-root` as a prefix of every name;
//! - a kubelet with the systemd driver and a runtime without: `<slice>:<runtime>:<id>` below the runtime's own
//!   cgroup.
//!
//! What lies above that does not matter: a node may itself be a container. A UID anywhere else is none.
//!
//! # Pods in pods
//!
//! A container that may write its cgroup can have any path below it: a node in a pod has pods of its own, and
//! a hostile one can make directories by other pods' names. So a path gives all its pods, **outermost
//! first**, and [`CgroupPath::owner`] takes the outermost that is watched. A daemon on the outer node watches
//! outer pods, and everything inside one is that pod's, whatever it is named. A daemon on the inner
//! node knows the inner kubelet's pods only, so theirs is the first that is watched. Innermost first would
//! differ in one case only: a container that names its directories after a watched pod.

mod name;
mod proc_file;
#[cfg(test)]
mod tests;

pub use name::Qos;
use name::{ContainerName, PodName};
pub use proc_file::{Membership, ProcCgroup};

/// What a path tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupPath {
    /// The pods that the cgroup lies in, the outermost first; no UID twice.
    pub pods: Vec<InPod>,
    /// Where no pod is in the path: the id of the innermost container, such as that of a neighbour seen from
    /// inside a private cgroup namespace, or of a kubelet with `--cgroups-per-qos=false`.
    pub container: Option<String>,
}

/// One pod of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPod {
    /// As the API writes it, or a static pod's config hash: 32 hexadecimal digits. The API's object of a
    /// static pod has another UID; its annotation `kubernetes.io/config.hash` has this one.
    pub uid: String,
    /// `None` where the path begins below what tells it.
    pub qos: Option<Qos>,
    /// Where in the pod.
    pub part: Part,
    /// How many components of the path, `..` included, lead to the pod's directory.
    pub depth: usize,
}

/// Where in a pod a cgroup lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The pod's own directory.
    Pod,
    /// A container, by the runtime's id (64 hexadecimal digits). The sandbox (pause) is one, by its own
    /// id, which no container of the API's object has.
    Container(String),
    /// Below a container: crun's `container`, what systemd in it makes, or all of a node.
    BelowContainer(String),
    /// In none of the pod's containers: conmon, a virtual machine monitor.
    Helper,
}

impl Part {
    /// The container, if any, that sockets of this cgroup are in.
    #[must_use]
    pub fn container(&self) -> Option<&str> {
        match self {
            Self::Container(id) | Self::BelowContainer(id) => Some(id),
            Self::Pod | Self::Helper => None,
        }
    }
}

impl CgroupPath {
    /// Reads a path as in `/proc/<pid>/cgroup` or below a cgroup mount; any text is allowed. A path that
    /// begins with `..` leaves a private cgroup namespace: of its beginning, some may be missing.
    #[must_use]
    pub fn parse(path: &str) -> Self {
        let all: Vec<_> = path.split('/').filter(|component| !matches!(*component, "" | ".")).collect();
        let up = all.iter().take_while(|component| **component == "..").count();
        let components = all.get(up..).unwrap_or_default();
        let mut pods: Vec<InPod> = Vec::new();
        for (index, component) in components.iter().enumerate() {
            let Some(pod) = PodName::parse(component) else { continue };
            let above = components.iter().take(index).rev().copied();
            let Some(qos) = pod.class(above, up > 0) else { continue };
            if pods.iter().all(|outer| outer.uid != pod.uid) {
                let below = components.get(index + 1..).unwrap_or_default();
                let part = Self::part(pod.container, below);
                pods.push(InPod { uid: pod.uid, qos, part, depth: up + index + 1 });
            }
        }
        let container = if pods.is_empty() { Self::innermost(components) } else { None };
        Self { pods, container }
    }

    /// The outermost pod that is watched; see the module.
    pub fn owner(&self, watched: impl Fn(&str) -> bool) -> Option<&InPod> {
        self.pods.iter().find(|pod| watched(&pod.uid))
    }

    fn part(shared: Option<ContainerName<'_>>, below: &[&str]) -> Part {
        let (name, below) = match (shared, below.split_first()) {
            (Some(name), _) => (Some(name), below),
            (None, Some((first, rest))) => (ContainerName::parse(first), rest),
            (None, None) => return Part::Pod,
        };
        match name.and_then(ContainerName::id) {
            Some(id) if below.is_empty() => Part::Container(id.to_owned()),
            Some(id) => Part::BelowContainer(id.to_owned()),
            None => Part::Helper,
        }
    }

    fn innermost(components: &[&str]) -> Option<String> {
        components.iter().rev().find_map(|component| container_id(component)).map(str::to_owned)
    }
}

/// The id (64 hexadecimal digits) in the name of a container's own directory; `None` for others, such as its
/// monitor's.
#[must_use]
pub fn container_id(name: &str) -> Option<&str> {
    // <slice>:<runtime>:<id>
    let name = name.rsplit_once(':').map_or(name, |(_, id)| id);
    ContainerName::parse(name)?.id()
}
