//! The cgroups of pods, kept by inotify.
//!
//! Each directory is watched first and listed then, so none that is made meanwhile is missed; one that is
//! seen twice is taken in once. When the kernel's queue overflows, the trees are walked anew. Where
//! directories cannot be watched, the trees are walked at every [`PodTree::refresh`], and watching is tried
//! again now and then.
//!
//! Every cgroup of a pod is watched, down to those that containers make. Outside pods, directories are
//! followed as far as pods may be found (`walk.rs`).

mod dirs;
#[cfg(test)]
mod tests;
mod walk;
mod watches;

use std::{
    fs,
    os::fd::{AsFd as _, BorrowedFd},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use self::watches::{Change, Watches};
pub use self::{
    dirs::{Cgroup, PodDirs},
    walk::subdirectories,
    watches::WatchError,
};

/// How long after a fault watching is tried again: long enough not to cost much, short enough for whoever
/// raises a limit.
const RETRY: Duration = Duration::from_secs(60);

/// How often the kernel's queue (4 KiB at a time) is read in one [`PodTree::refresh`]: a tree that changes
/// without end must not hold the caller up.
const READS: usize = 1024;

/// The trees, and what is known of the pods in them.
#[derive(Debug)]
pub struct PodTree {
    trees: Vec<PathBuf>,
    limit: usize,
    dirs: Arc<PodDirs>,
    state: State,
    overflows: u64,
}

#[derive(Debug)]
enum State {
    Watching(Watches),
    Scanning { fault: WatchError, since: Instant },
}

impl PodTree {
    /// Watches and walks the trees: roots of cgroup hierarchies, of which no one should be given twice.
    /// `limit` is how many directories may be watched, see [`watch_limit`]. A fault is in
    /// [`fault`](Self::fault).
    #[must_use]
    pub fn new(trees: &[PathBuf], limit: usize, now: Instant) -> Self {
        let (dirs, state) = start(trees, limit, now);
        Self { trees: trees.to_vec(), limit, dirs: Arc::new(dirs), state, overflows: 0 }
    }

    /// Brings [`pods`](Self::pods) up to date; whether a cgroup of a pod may have come or gone since the last
    /// time.
    pub fn refresh(&mut self, now: Instant) -> bool {
        match &mut self.state {
            State::Watching(watches) => {
                match follow(watches, Arc::make_mut(&mut self.dirs), &self.trees, &mut self.overflows) {
                    Ok(changed) => changed,
                    Err(fault) => {
                        self.state = State::Scanning { fault, since: now };
                        self.replace(PodDirs::scan(&self.trees));
                        // What was followed before the fault is not told apart.
                        true
                    }
                }
            }
            State::Scanning { since, .. } if now.duration_since(*since) >= RETRY => {
                let (dirs, state) = start(&self.trees, self.limit, now);
                self.state = state;
                self.replace(dirs)
            }
            State::Scanning { .. } => self.replace(PodDirs::scan(&self.trees)),
        }
    }

    /// The pods as of the last [`refresh`](Self::refresh). Whoever keeps the handle keeps that state.
    #[must_use]
    pub fn pods(&self) -> Arc<PodDirs> {
        Arc::clone(&self.dirs)
    }

    /// Readable when [`refresh`](Self::refresh) has something to do; `None` while the trees are only walked.
    /// It is another one after each fault.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Watching(watches) => Some(watches.fd()),
            State::Scanning { .. } => None,
        }
    }

    /// Waits until something happened in the trees, at most for `timeout`; whether something did. While the
    /// trees are only walked, that is never known before the time is over.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> bool {
        let Some(fd) = self.fd() else {
            std::thread::sleep(timeout);
            return false;
        };
        let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        // A signal ends the wait early; the caller looks again anyway.
        poll(&mut fds, timeout).is_ok_and(|ready| ready > 0)
    }

    /// Why the trees are only walked, if they are.
    #[must_use]
    pub fn fault(&self) -> Option<&WatchError> {
        match &self.state {
            State::Watching(_) => None,
            State::Scanning { fault, .. } => Some(fault),
        }
    }

    /// How many directories are watched now.
    #[must_use]
    pub fn watched(&self) -> usize {
        match &self.state {
            State::Watching(watches) => watches.len(),
            State::Scanning { .. } => 0,
        }
    }

    /// How often the kernel's queue overflowed, and the trees were walked anew.
    #[must_use]
    pub fn overflows(&self) -> u64 {
        self.overflows
    }

    fn replace(&mut self, dirs: PodDirs) -> bool {
        let changed = *self.dirs != dirs;
        self.dirs = Arc::new(dirs);
        changed
    }
}

/// Half of what root's processes may watch together (`/proc/sys/fs/inotify/max_user_watches`): kubelets, log
/// shippers and others watch, too. Where that cannot be read, half of what kernels before 5.11 allow.
#[must_use]
pub fn watch_limit(proc: &Path) -> usize {
    let file = fs::read_to_string(proc.join("sys/fs/inotify/max_user_watches"));
    file.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(8192_usize) / 2
}

fn start(trees: &[PathBuf], limit: usize, now: Instant) -> (PodDirs, State) {
    let mut dirs = PodDirs::new(trees);
    let watching = Watches::new(limit).and_then(|mut watches| {
        walk_all(&mut watches, &mut dirs, trees)?;
        Ok(watches)
    });
    match watching {
        Ok(watches) => (dirs, State::Watching(watches)),
        Err(fault) => (PodDirs::scan(trees), State::Scanning { fault, since: now }),
    }
}

fn walk_all(watches: &mut Watches, dirs: &mut PodDirs, trees: &[PathBuf]) -> Result<bool, WatchError> {
    let mut changed = false;
    for tree in trees {
        changed |= dirs.take_in(tree, |path| watches.add(path))?;
    }
    Ok(changed)
}

fn follow(
    watches: &mut Watches,
    dirs: &mut PodDirs,
    trees: &[PathBuf],
    overflows: &mut u64,
) -> Result<bool, WatchError> {
    let mut changed = false;
    let mut lost = false;
    for _ in 0..READS {
        let events = watches.read()?;
        if events.is_empty() {
            break;
        }
        for event in events {
            match watches.change(&event) {
                Some(Change::Made(path)) => changed |= dirs.take_in(&path, |path| watches.add(path))?,
                Some(Change::Gone(path)) => {
                    watches.remove(&path);
                    changed |= dirs.forget(&path);
                }
                Some(Change::Overflow) => {
                    *overflows += 1;
                    lost = true;
                }
                None => {}
            }
        }
    }
    if lost {
        let mut anew = PodDirs::new(trees);
        watches.renew(|watches| walk_all(watches, &mut anew, trees))?;
        changed |= *dirs != anew;
        *dirs = anew;
    }
    // A hierarchy may be mounted later, or again.
    for tree in trees.iter().filter(|tree| !watches.contains(tree)).collect::<Vec<_>>() {
        changed |= dirs.take_in(tree, |path| watches.add(path))?;
    }
    Ok(changed)
}
