//! `/proc/<pid>/cgroup`: the cgroups of a process, one line for each hierarchy.
//!
//! `hierarchy:controllers:path` (cgroups(7)); the v2 tree is `0::path`. On v2, a cgroup that has been removed
//! ends in ` (deleted)` (`proc_cgroup_show`, kernel/cgroup/cgroup.c). Names may have colons, but no line
//! breaks.

use super::CgroupPath;

/// A process's place in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// 0 for v2, else the kernel's number of the hierarchy.
    pub hierarchy: u32,
    /// v1 controllers, and `name=<name>` for a named hierarchy; empty for v2.
    pub controllers: Vec<String>,
    /// Relative to the root of the reader's cgroup namespace, so it may begin with `/..`.
    pub path: String,
    /// The cgroup is gone, and the process in it not yet.
    pub deleted: bool,
}

impl Membership {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(3, ':');
        let (hierarchy, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let hierarchy = hierarchy.parse().ok()?;
        let unified = hierarchy == 0 && controllers.is_empty();
        // On v1 that would be a part of the name.
        let left = if unified { path.strip_suffix(" (deleted)") } else { None };
        Some(Self {
            hierarchy,
            controllers: controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            path: left.unwrap_or(path).to_owned(),
            deleted: left.is_some(),
        })
    }

    /// Whether this is the v2 tree.
    #[must_use]
    pub fn is_unified(&self) -> bool {
        self.hierarchy == 0 && self.controllers.is_empty()
    }
}

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcCgroup {
    /// In the file's order.
    pub memberships: Vec<Membership>,
}

impl ProcCgroup {
    /// Reads the file's bytes; lines of other shapes are passed over.
    #[must_use]
    pub fn parse(file: &[u8]) -> Self {
        // A name that is no UTF-8 is no pod's either.
        let text = String::from_utf8_lossy(file);
        Self { memberships: text.lines().filter_map(Membership::parse).collect() }
    }

    /// What the paths tell together: the v2 tree's where it tells a pod, else that of the first hierarchy
    /// that does. Without any pod, likewise for a container.
    #[must_use]
    pub fn place(&self) -> CgroupPath {
        let (unified, v1): (Vec<_>, Vec<_>) = self.memberships.iter().partition(|line| line.is_unified());
        let places: Vec<_> =
            unified.into_iter().chain(v1).map(|line| CgroupPath::parse(&line.path)).collect();
        let best = places.iter().find(|place| !place.pods.is_empty());
        best.or_else(|| places.iter().find(|place| place.container.is_some())).cloned().unwrap_or_default()
    }
}
