//! The thread that follows the logs of all pods' hc.
//!
//! It looks at each file five times a second, two system calls where nothing was written, and at once when a file in one of
//! the directories is written ([`bell`](super::bell)).

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::sync::mpsc::{Sender, error::TrySendError};

use super::{bell::Bell, pod::PodLog};
use crate::hc::{names::Names, observation::HcObservation};

/// From one look at all files to the next.
const ROUND: Duration = Duration::from_millis(200);

/// Follows logs until it is dropped.
#[derive(Debug)]
pub struct Follower {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The directory of each pod's log, by UID.
    wanted: Mutex<BTreeMap<Arc<str>, PathBuf>>,
    /// Why a pod's log cannot be read, by UID.
    faults: Mutex<BTreeMap<Arc<str>, String>>,
    dropped: AtomicU64,
    unreadable: AtomicU64,
}

impl Follower {
    /// Starts the thread. Observations that find `observations` full are dropped and counted.
    pub fn start(names: Names, observations: Sender<HcObservation>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let weak = Arc::downgrade(&shared);
        thread::Builder::new()
            .name("gt-hc-logs".to_owned())
            .spawn(move || run(&weak, &Arc::new(names), &observations))?;
        Ok(Self { shared })
    }

    /// Follows the log of a pod's hc: `/var/log/pods/<namespace>_<pod>_<uid>/<container>`. Its last transitions
    /// are told first.
    pub fn follow(&self, uid: Arc<str>, directory: PathBuf) {
        lock(&self.shared.wanted).insert(uid, directory);
    }

    /// Follows it no longer.
    pub fn forget(&self, uid: &str) {
        lock(&self.shared.wanted).remove(uid);
    }

    /// Why a log cannot be read now, by the pod's UID.
    #[must_use]
    pub fn faults(&self) -> BTreeMap<Arc<str>, String> {
        lock(&self.shared.faults).clone()
    }

    /// Observations dropped since the start.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Lines about transitions that could not be understood, since the start.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.shared.unreadable.load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(weak: &Weak<Shared>, names: &Arc<Names>, observations: &Sender<HcObservation>) {
    let mut logs: BTreeMap<_, (PathBuf, PodLog)> = BTreeMap::new();
    let mut bell = Bell::new();
    while let Some(shared) = weak.upgrade() {
        round(&shared, &mut logs, names, observations);
        drop(shared);
        bell.watch(logs.values().map(|(directory, _)| directory.as_path()));
        bell.wait(ROUND);
    }
}

/// Looks at all logs once.
fn round(
    shared: &Shared,
    logs: &mut BTreeMap<Arc<str>, (PathBuf, PodLog)>,
    names: &Arc<Names>,
    observations: &Sender<HcObservation>,
) {
    let wanted = lock(&shared.wanted).clone();
    logs.retain(|uid, (directory, _)| wanted.get(uid) == Some(directory));
    let mut faults = BTreeMap::new();
    let mut told = Vec::new();
    for (uid, directory) in wanted {
        let (_, log) = logs
            .entry(Arc::clone(&uid))
            .or_insert_with(|| (directory.clone(), PodLog::new(directory, Arc::clone(names))));
        let before = log.unreadable;
        if let Err(error) = log.round(&mut told) {
            faults.insert(Arc::clone(&uid), error.to_string());
        }
        shared.unreadable.fetch_add(log.unreadable - before, Ordering::Relaxed);
        for observation in told.drain(..) {
            let observation = HcObservation { uid: Arc::clone(&uid), observation };
            if let Err(TrySendError::Full(_)) = observations.try_send(observation) {
                shared.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    *lock(&shared.faults) = faults;
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Instant};

    use tokio::sync::mpsc;

    use super::*;
    use crate::hc::observation::What;

    const LINE: &str = "2026-11-30T07:16:46.5Z stdout F event=transition from=OPEN to=DRAINING\n";

    /// Exercises the thread, so that it follows what it is told to, tells what it cannot read, and ends.
    #[test]
    fn follows_and_forgets() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("0.log"), LINE).unwrap();
        let (sender, mut observations) = mpsc::channel(4);
        let follower = Follower::start(Names::default(), sender).unwrap();
        follower.follow("a".into(), dir.path().to_owned());
        follower.follow("b".into(), "/nonexistent/hc".into());
        let first = observations.blocking_recv().unwrap();
        assert_eq!(&*first.uid, "a");
        assert!(matches!(first.observation.what, What::Transition { .. }));
        let deadline = Instant::now() + Duration::from_secs(5);
        while follower.faults().is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(follower.faults().keys().map(|uid| &**uid).collect::<Vec<_>>(), ["b"]);
        follower.forget("b");
        drop(follower);
        assert_eq!(observations.blocking_recv(), None);
    }

    /// Exercises a consumer that does not read, so that what is dropped is counted.
    #[test]
    fn drops_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("0.log"), LINE.repeat(5)).unwrap();
        let (sender, _observations) = mpsc::channel(2);
        let shared = Shared::default();
        lock(&shared.wanted).insert("a".into(), dir.path().to_owned());
        round(&shared, &mut BTreeMap::new(), &Arc::new(Names::default()), &sender);
        assert_eq!(shared.dropped.load(Ordering::Relaxed), 3);
    }
}
