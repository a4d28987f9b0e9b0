//! The kernel's watches of directories (inotify(7)).
//!
//! A watch keeps its directory's inode in memory after a cgroup is removed, since a removed cgroup's inode
//! still has links; so each is taken back when the directory above tells of the removal.

use std::{
    collections::{BTreeMap, HashMap},
    os::fd::{AsFd as _, BorrowedFd},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor},
};

use super::dirs::subtree;

/// Why the tree cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    #[error(
        "no inotify instance is left ({0}): raise fs.inotify.max_user_instances, or the daemon's limit of open \
         files"
    )]
    Instances(Errno),
    #[error(
        "the kernel gives no more than {0} inotify watches here: raise fs.inotify.max_user_watches, which all \
         processes of root share"
    )]
    Kernel(usize),
    #[error(
        "more than {0} cgroups may lead to pods; gt takes no more than half of fs.inotify.max_user_watches, \
         since others need watches, too: raise it"
    )]
    Own(usize),
    #[error("cannot watch the cgroup {path}: {cause}; gt must run as root")]
    Directory { path: PathBuf, cause: Errno },
    #[error("cannot read from inotify: {0}")]
    Read(Errno),
}

/// What is asked of each watch. Names of cgroups change on v1 only.
const EVENTS: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVE)
    .union(AddWatchFlags::IN_ONLYDIR);

/// What happened to a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Made(PathBuf),
    Gone(PathBuf),
    /// Some of what happened is lost.
    Overflow,
}

/// Watched directories, each by its path and by the kernel's number.
#[derive(Debug)]
pub(super) struct Watches {
    inotify: Inotify,
    limit: usize,
    by_path: BTreeMap<PathBuf, WatchDescriptor>,
    by_number: HashMap<WatchDescriptor, PathBuf>,
}

impl Watches {
    /// `limit`: how many directories at most.
    pub fn new(limit: usize) -> Result<Self, WatchError> {
        let inotify =
            Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).map_err(WatchError::Instances)?;
        Ok(Self { inotify, limit, by_path: BTreeMap::new(), by_number: HashMap::new() })
    }

    /// Readable when something happened.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    pub fn len(&self) -> usize {
        self.by_path.len()
    }

    pub fn contains(&self, path: &Path) -> bool {
        self.by_path.contains_key(path)
    }

    /// Watches a directory, once or again; `false` when it is not there, or no path leads there.
    pub fn add(&mut self, path: &Path) -> Result<bool, WatchError> {
        if self.len() >= self.limit && !self.contains(path) {
            return Err(WatchError::Own(self.limit));
        }
        let number = match self.inotify.add_watch(path, EVENTS) {
            Ok(number) => number,
            // A container may make directories as deep as it likes; no runtime makes any whose path is that long.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ENAMETOOLONG) => return Ok(false),
            Err(Errno::ENOSPC) => return Err(WatchError::Kernel(self.len())),
            Err(cause) => return Err(WatchError::Directory { path: path.to_owned(), cause }),
        };
        if let Some(before) = self.by_path.insert(path.to_owned(), number)
            && before != number
        {
            self.drop_number(before);
        }
        // The same directory by another path: it was renamed.
        if let Some(before) = self.by_number.insert(number, path.to_owned())
            && before != path
        {
            self.by_path.remove(&before);
        }
        Ok(true)
    }

    /// Takes back the watches of a directory and all below it.
    pub fn remove(&mut self, path: &Path) {
        let gone: Vec<_> =
            subtree(&self.by_path, path).map(|(path, number)| (path.clone(), *number)).collect();
        for (path, number) in gone {
            self.by_path.remove(&path);
            self.drop_number(number);
        }
    }

    /// Walks anew: what `walk` does not add again is no longer watched.
    pub fn renew<T>(
        &mut self,
        walk: impl FnOnce(&mut Self) -> Result<T, WatchError>,
    ) -> Result<T, WatchError> {
        self.by_path.clear();
        let before = std::mem::take(&mut self.by_number);
        let result = walk(self);
        for number in before.into_keys().filter(|number| !self.by_number.contains_key(number)) {
            self.end(number);
        }
        result
    }

    /// Some of what happened since the last call, in order; empty when that is all.
    pub fn read(&self) -> Result<Vec<InotifyEvent>, WatchError> {
        match self.inotify.read_events() {
            Ok(events) => Ok(events),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(Vec::new()),
            Err(cause) => Err(WatchError::Read(cause)),
        }
    }

    /// What an event means. That depends on what is watched, so all events before must have been followed.
    pub fn change(&self, event: &InotifyEvent) -> Option<Change> {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            return Some(Change::Overflow);
        }
        let directory = self.by_number.get(&event.wd)?;
        if event.mask.intersects(AddWatchFlags::IN_IGNORED | AddWatchFlags::IN_UNMOUNT) {
            return Some(Change::Gone(directory.clone()));
        }
        if !event.mask.contains(AddWatchFlags::IN_ISDIR) {
            return None;
        }
        let path = directory.join(event.name.as_ref()?);
        let made = event.mask.intersects(AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO);
        Some(if made { Change::Made(path) } else { Change::Gone(path) })
    }

    fn drop_number(&mut self, number: WatchDescriptor) {
        if self.by_number.remove(&number).is_some() {
            self.end(number);
        }
    }

    /// The kernel may have ended it already: then there is nothing to do.
    fn end(&self, number: WatchDescriptor) {
        self.inotify.rm_watch(number).ok();
    }
}
