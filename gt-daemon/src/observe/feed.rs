//! The way of the kernel's events to the observer: bounded, and it never holds up the ring's reader.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::mpsc::{self, error::TrySendError};

use crate::probes::events::Next;

/// Events that wait at most: as many as the ring holds.
const ROOM: usize = 4096;

/// The ring reader's end.
#[derive(Clone, Debug)]
pub struct Feed {
    sender: mpsc::Sender<Next>,
    lost: Arc<AtomicU64>,
}

impl Feed {
    /// Both ends; `lost` counts what found no room.
    pub(super) fn new(lost: Arc<AtomicU64>) -> (Self, mpsc::Receiver<Next>) {
        let (sender, receiver) = mpsc::channel(ROOM);
        (Self { sender, lost }, receiver)
    }

    /// Hands something on; an event that finds no room is dropped and counted.
    pub fn push(&self, next: Next) {
        if let Err(TrySendError::Full(Next::Event(_))) = self.sender.try_send(next) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}
