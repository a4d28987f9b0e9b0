//! Writes records to files on a thread of its own: a disk that hangs holds nobody up.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use tracing::{error, info};

use super::{record::Record, store::Store};

/// Records that wait at most.
const ROOM: usize = 64;

/// The way to the thread; it ends when this is dropped.
#[derive(Clone, Debug)]
pub struct Writer {
    records: SyncSender<Arc<Record>>,
    unwritten: Arc<AtomicU64>,
}

impl Writer {
    /// `unwritten` counts what found no room, and what could not be written. An error when no thread can be started.
    pub fn start(store: Store, unwritten: Arc<AtomicU64>) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(ROOM);
        let writer = Self { records: sender, unwritten: Arc::clone(&unwritten) };
        thread::Builder::new()
            .name("records".to_owned())
            .spawn(move || write(&store, &receiver, &unwritten))?;
        Ok(writer)
    }

    /// Hands a record on.
    pub fn push(&self, record: &Arc<Record>) {
        if self.records.try_send(Arc::clone(record)).is_err() {
            self.unwritten.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write(store: &Store, records: &Receiver<Arc<Record>>, unwritten: &AtomicU64) {
    let mut told = None;
    for record in records {
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
