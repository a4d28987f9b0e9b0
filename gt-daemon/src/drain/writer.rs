//! Writes records to files on a thread of its own: a disk that hangs holds nobody up.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use tracing::{error, info};

use super::{record::Record, store::Store};

/// Records that wait at most.
const ROOM: usize = 64;

/// The way to the thread; it ends when this is dropped.
#[derive(Clone, Debug)]
pub struct Writer {
    jobs: SyncSender<Job>,
    unwritten: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Job {
    Write(Arc<Record>),
    /// Tell when all that came before is written.
    Tell(SyncSender<()>),
}

impl Writer {
    /// `unwritten` counts what found no room, and what could not be written. An error when no thread can be started.
    pub fn start(store: Store, unwritten: Arc<AtomicU64>) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(ROOM);
        let writer = Self { jobs: sender, unwritten: Arc::clone(&unwritten) };
        thread::Builder::new()
            .name("records".to_owned())
            .spawn(move || write(&store, &receiver, &unwritten))?;
        Ok(writer)
    }

    /// Hands a record on.
    pub fn push(&self, record: &Arc<Record>) {
        if self.jobs.try_send(Job::Write(Arc::clone(record))).is_err() {
            self.unwritten.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all that was handed on is written or has failed, for `patience` at most. Whether it came to that.
    #[must_use]
    pub fn flush(&self, patience: Duration) -> bool {
        let (sender, told) = sync_channel(1);
        self.jobs.try_send(Job::Tell(sender)).is_ok() && told.recv_timeout(patience).is_ok()
    }
}

fn write(store: &Store, jobs: &Receiver<Job>, unwritten: &AtomicU64) {
    let mut told = None;
    for job in jobs {
        let record = match job {
            Job::Write(record) => record,
            Job::Tell(waiting) => {
                // Whoever gave up waiting is not told.
                let _gave_up = waiting.try_send(());
                continue;
            }
        };
        let fault = match store.write(&record) {
            Ok(place) => {
                info!(pod = record.pod, namespace = record.namespace, record = %place.display(), "drain recorded");
                None
            }
            Err(error) => {
                // Without room for old ones the new one is there all the same.
                if !error.is_written() {
                    unwritten.fetch_add(1, Ordering::Relaxed);
                }
                Some(error.to_string())
            }
        };
        // Each cause once, until a record is written.
        if let Some(fault) = fault.as_ref().filter(|fault| told.as_ref() != Some(*fault)) {
            error!("{fault}");
        }
        told = fault;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::fact::{Fact, Timed};

    /// Exercises a record that is handed on just before the end, so that it is there when the wait is over.
    #[test]
    fn flush() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().to_owned(), 9).unwrap();
        let unwritten = Arc::default();
        let writer = Writer::start(store, Arc::clone(&unwritten)).unwrap();
        let facts = vec![Timed { ts: 0, fact: Fact::PodDeleted { grace_seconds: 1 } }];
        for pod in ["a", "b"] {
            writer.push(&Arc::new(Record::of("n", pod, "u", facts.clone(), 0).unwrap()));
        }
        assert!(writer.flush(Duration::from_secs(60)));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
        assert_eq!(unwritten.load(Ordering::Relaxed), 0);
    }
}
