//! Rings when a log is written, so that a transition is known within milliseconds (inotify(7)). Where the kernel gives no
//! watch, or a log is a link to a file elsewhere, it does not ring, and the next regular look finds what was written.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor},
};

/// A log that is written without end is looked at no more often.
const SHORTEST: Duration = Duration::from_millis(10);

/// A file of the directory is written, or a new one comes.
const EVENTS: AddWatchFlags = AddWatchFlags::IN_MODIFY
    .union(AddWatchFlags::IN_CREATE)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_ONLYDIR);

/// Watches of directories, one each.
#[derive(Debug)]
pub(super) struct Bell {
    inotify: Option<Inotify>,
    watched: BTreeMap<PathBuf, WatchDescriptor>,
}

impl Bell {
    pub(super) fn new() -> Self {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
        Self { inotify, watched: BTreeMap::new() }
    }

    /// Watches these directories and no others. One that is not there yet is tried again next time.
    pub(super) fn watch<'a>(&mut self, directories: impl Iterator<Item = &'a Path>) {
        let Some(inotify) = &self.inotify else { return };
        let wanted: BTreeSet<_> = directories.collect();
        self.watched.retain(|directory, number| {
            let stays = wanted.contains(directory.as_path());
            if !stays {
                // It may be gone already.
                let _gone = inotify.rm_watch(*number);
            }
            stays
        });
        for directory in wanted {
            if !self.watched.contains_key(directory)
                && let Ok(number) = inotify.add_watch(directory, EVENTS)
            {
                self.watched.insert(directory.to_owned(), number);
            }
        }
    }

    /// Waits until a log is written, or for `longest`.
    pub(super) fn wait(&mut self, longest: Duration) {
        let begun = Instant::now();
        let Some(inotify) = &self.inotify else { return thread::sleep(longest) };
        let timeout = PollTimeout::try_from(longest).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(inotify.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            // A signal: one round too early.
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => thread::sleep(longest),
        }
        while let Ok(events) = inotify.read_events() {
            // The directory is no more; one that takes its place is another.
            for event in events.iter().filter(|event| event.mask.contains(AddWatchFlags::IN_IGNORED)) {
                self.watched.retain(|_, number| *number != event.wd);
            }
        }
        thread::sleep(SHORTEST.saturating_sub(begun.elapsed()));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// How long it took until the bell rang, up to a long time.
    fn rings(bell: &mut Bell) -> bool {
        let begun = Instant::now();
        bell.wait(Duration::from_secs(20));
        begun.elapsed() < Duration::from_secs(15)
    }

    /// Exercises a log that is written, one that is rotated, and a directory made anew, so that each rings.
    #[test]
    fn rings_for_what_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("hc");
        let mut bell = Bell::new();
        bell.watch([log.as_path()].into_iter());
        assert!(bell.watched.is_empty(), "not there yet");
        fs::create_dir(&log).unwrap();
        bell.watch([log.as_path()].into_iter());
        fs::write(log.join("0.log"), "a").unwrap();
        assert!(rings(&mut bell));
        fs::rename(log.join("0.log"), log.join("0.log.1")).unwrap();
        assert!(rings(&mut bell));
        fs::remove_dir_all(&log).unwrap();
        assert!(rings(&mut bell) && bell.watched.is_empty());
        fs::create_dir(&log).unwrap();
        bell.watch([log.as_path()].into_iter());
        fs::write(log.join("1.log"), "a").unwrap();
        assert!(rings(&mut bell));
    }

    /// Exercises a directory that is no longer wanted, so that its watch is given back.
    #[test]
    fn gives_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut bell = Bell::new();
        bell.watch([dir.path()].into_iter());
        assert_eq!(bell.watched.len(), 1);
        bell.watch(std::iter::empty());
        assert!(bell.watched.is_empty());
    }
}
