//! The cgroups of pods, by UID, as found in cgroup trees.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    convert::Infallible,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::walk::{DEPTH, may_lead_to_pods, subdirectories};
use crate::pods::cgroup_path::CgroupPath;

/// A cgroup of a pod: the pod's own directory, or one below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    pub path: PathBuf,
    /// Inode number; on v2 that is the id by which the kernel knows the cgroup.
    pub id: u64,
    /// What the path below the tree's root tells.
    pub place: CgroupPath,
}

/// Where a pod's directory is. The order is that of [`PodDirs::of`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Home {
    tree: usize,
    /// How many other pods it lies in.
    nesting: usize,
    path: PathBuf,
}

/// All cgroups of pods in some cgroup trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDirs {
    trees: Vec<PathBuf>,
    cgroups: BTreeMap<PathBuf, Cgroup>,
    homes: HashMap<String, BTreeSet<Home>>,
}

impl PodDirs {
    /// Nothing found yet.
    pub(super) fn new(trees: &[PathBuf]) -> Self {
        Self { trees: trees.to_vec(), cgroups: BTreeMap::new(), homes: HashMap::new() }
    }

    /// Walks the trees; directories that go away meanwhile are passed over.
    #[must_use]
    pub fn scan(trees: &[PathBuf]) -> Self {
        let mut dirs = Self::new(trees);
        for tree in trees {
            let Ok(_any) = dirs.take_in(tree, |_| Ok::<_, Infallible>(true));
        }
        dirs
    }

    /// A pod's directories, those of the first tree first. In each tree there is one, or one for each
    /// container where the runtime does not put them into the pod's.
    ///
    /// A directory inside another pod counts only if there is none outside: a container may make directories
    /// by any name in its own cgroup.
    #[must_use]
    pub fn of(&self, uid: &str) -> Vec<PathBuf> {
        self.homes(uid).map(|home| home.path.clone()).collect()
    }

    /// All cgroups at and below a pod's directories, each after the one above it.
    pub fn cgroups(&self, uid: &str) -> impl Iterator<Item = &Cgroup> {
        self.homes(uid).flat_map(|home| subtree(&self.cgroups, &home.path).map(|(_, cgroup)| cgroup))
    }

    /// UIDs of the pods that have a directory, in no order; a static pod's is its config hash.
    pub fn uids(&self) -> impl Iterator<Item = &str> {
        self.homes.keys().map(String::as_str)
    }

    fn homes(&self, uid: &str) -> impl Iterator<Item = &Home> {
        let mut outermost: Option<&Home> = None;
        self.homes.get(uid).into_iter().flatten().filter(move |home| match outermost {
            Some(first) if first.tree == home.tree => first.nesting == home.nesting,
            _ => {
                outermost = Some(home);
                true
            }
        })
    }

    /// Takes in a directory and what is below it, as far as pods may be there. `enter` is called for each
    /// before it is listed, and says whether it is there. Tells whether a pod's cgroup was new.
    pub(super) fn take_in<E>(
        &mut self,
        start: &Path,
        mut enter: impl FnMut(&Path) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut new = false;
        let mut open = vec![start.to_owned()];
        while let Some(directory) = open.pop() {
            if !self.leads_to_pods(&directory) || !enter(&directory)? {
                continue;
            }
            new |= self.insert(&directory);
            open.extend(subdirectories(&directory));
        }
        Ok(new)
    }

    /// Forgets a directory and all below it; whether a pod's cgroup was among them.
    pub(super) fn forget(&mut self, path: &Path) -> bool {
        let gone: Vec<_> = subtree(&self.cgroups, path).map(|(path, _)| path.clone()).collect();
        for path in &gone {
            let Some(cgroup) = self.cgroups.remove(path) else { continue };
            if let Some((uid, home)) = self.home(&cgroup)
                && let Some(homes) = self.homes.get_mut(&uid)
            {
                homes.remove(&home);
                if homes.is_empty() {
                    self.homes.remove(&uid);
                }
            }
        }
        !gone.is_empty()
    }

    /// Whether a directory is worth looking at: one in a pod, or one that may lead to pods.
    fn leads_to_pods(&self, directory: &Path) -> bool {
        let Some((_, below)) = self.place(directory) else { return false };
        let mut components = below.components();
        let Some(name) = components.next_back() else { return true };
        below.components().count() <= DEPTH
            && (name.as_os_str().to_str().is_none_or(may_lead_to_pods)
                || !CgroupPath::parse(&components.as_path().to_string_lossy()).pods.is_empty())
    }

    fn insert(&mut self, directory: &Path) -> bool {
        let Some((_, below)) = self.place(directory) else { return false };
        let place = CgroupPath::parse(&below.to_string_lossy());
        if place.pods.is_empty() {
            return false;
        }
        // One that has just gone is no more than one that was never there.
        let Ok(metadata) = fs::metadata(directory) else { return false };
        let cgroup = Cgroup { path: directory.to_owned(), id: metadata.ino(), place };
        if let Some((uid, home)) = self.home(&cgroup) {
            self.homes.entry(uid).or_default().insert(home);
        }
        let new = self.cgroups.get(directory) != Some(&cgroup);
        self.cgroups.insert(cgroup.path.clone(), cgroup);
        new
    }

    /// If this is a pod's own directory, whose and where.
    fn home(&self, cgroup: &Cgroup) -> Option<(String, Home)> {
        let (tree, below) = self.place(&cgroup.path)?;
        let (pod, outer) = cgroup.place.pods.split_last()?;
        let own = pod.depth == below.components().count();
        own.then(|| (pod.uid.clone(), Home { tree, nesting: outer.len(), path: cgroup.path.clone() }))
    }

    /// Which tree, and where in it.
    fn place<'a>(&self, path: &'a Path) -> Option<(usize, &'a Path)> {
        self.trees.iter().enumerate().find_map(|(tree, root)| Some((tree, path.strip_prefix(root).ok()?)))
    }
}

/// The entries at and below a path. Paths are ordered by component, so these follow one another.
pub(super) fn subtree<'a, T>(
    map: &'a BTreeMap<PathBuf, T>,
    path: &Path,
) -> impl Iterator<Item = (&'a PathBuf, &'a T)> {
    map.range(path.to_owned()..).take_while({
        let path = path.to_owned();
        move |(entry, _)| entry.starts_with(&path)
    })
}
