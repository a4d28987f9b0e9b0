//! Who listens, and what each is told: bounded queues, pure but for them; time is an argument.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{ask::Ask, message::Message};

/// Messages that wait for one reader at most.
pub const ROOM: usize = 2048;

/// A reader that takes nothing for so long is let go, nanoseconds: it may hold a place that another wants.
const STUCK: u64 = 60_000_000_000;

/// Who a message is about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    pub namespace: &'a str,
    pub pod: &'a str,
    /// `None` where they are not known.
    pub labels: Option<&'a BTreeMap<String, String>>,
}

/// One reader of a stream: what it asks for, and the way to it.
#[derive(Debug)]
pub struct Reader {
    ask: Ask,
    sender: mpsc::Sender<Arc<Message>>,
    /// Messages that found no room since the last one that did.
    lost: u64,
    /// Since when it has taken nothing, `CLOCK_MONOTONIC` nanoseconds.
    full_since: Option<u64>,
    /// Its place among those that may listen.
    _place: OwnedSemaphorePermit,
}

impl Reader {
    /// A reader and the end at which it hears.
    #[must_use]
    pub fn new(ask: Ask, place: OwnedSemaphorePermit) -> (Self, mpsc::Receiver<Arc<Message>>) {
        let (sender, receiver) = mpsc::channel(ROOM);
        (Self { ask, sender, lost: 0, full_since: None, _place: place }, receiver)
    }

    /// Whether it asks for a pod.
    #[must_use]
    pub fn wants(&self, about: About<'_>) -> bool {
        self.ask.matches(about.namespace, about.pod, about.labels)
    }

    /// Hands a message on, or counts it as lost.
    pub fn tell(&mut self, message: &Arc<Message>) {
        if !self.tell_lost() || self.sender.try_send(Arc::clone(message)).is_err() {
            self.lost += 1;
        }
    }

    /// Tells what was lost, if that finds room; whether nothing is left to tell.
    fn tell_lost(&mut self) -> bool {
        if self.lost > 0 {
            let lost = Arc::new(Message::Lost { messages: self.lost });
            if self.sender.try_send(lost).is_err() {
                return false;
            }
            self.lost = 0;
        }
        true
    }

    /// Whether it is still there.
    fn stays(&mut self, now_ns: u64) -> bool {
        if self.tell_lost() {
            self.full_since = None;
        } else {
            self.full_since.get_or_insert(now_ns);
        }
        let is_stuck = self.full_since.is_some_and(|since| now_ns.saturating_sub(since) > STUCK);
        !is_stuck && !self.sender.is_closed()
    }
}

/// All readers.
#[derive(Debug, Default)]
pub struct Hub {
    readers: Vec<Reader>,
}

impl Hub {
    /// Whether anybody listens.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        !self.readers.is_empty()
    }

    /// Whether anybody asks for a pod.
    #[must_use]
    pub fn wants(&self, about: About<'_>) -> bool {
        self.readers.iter().any(|reader| reader.wants(about))
    }

    /// Takes a reader in.
    pub fn enter(&mut self, reader: Reader) {
        self.readers.push(reader);
    }

    /// Tells those who ask for a pod. The message is made only if somebody does.
    pub fn publish(&mut self, about: About<'_>, message: impl FnOnce() -> Message) {
        let mut readers = self.readers.iter_mut().filter(|reader| reader.wants(about)).peekable();
        if readers.peek().is_some() {
            let message = Arc::new(message());
            readers.for_each(|reader| reader.tell(&message));
        }
    }

    /// Tells the slow what they have lost, and lets those go that are gone or take nothing any more.
    pub fn tick(&mut self, now_ns: u64) {
        self.readers.retain_mut(|reader| reader.stays(now_ns));
    }
}

#[cfg(test)]
#[path = "hub_tests.rs"]
mod tests;
