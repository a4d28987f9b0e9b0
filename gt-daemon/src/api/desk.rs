//! Where the local door asks the observer: a bounded way, which holds neither up.

use std::sync::Arc;

use tokio::sync::{
    Semaphore,
    mpsc::{self, error::TrySendError},
    oneshot,
};

use super::{
    ask::Ask,
    hub::Reader,
    message::{Message, PodStatus},
};
use crate::drain::record::Record;

/// Questions that wait at most.
const ROOM: usize = 16;

/// What the observer is asked.
#[derive(Debug)]
pub enum Request {
    /// How all watched pods are.
    Pods(oneshot::Sender<Vec<PodStatus>>),
    /// The drains that go on, as far as they are known: of the pod with this UID, or of all.
    Draining(Option<String>, oneshot::Sender<Vec<Record>>),
    /// To be told from now on.
    Follow(Reader),
}

/// Why it does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeskError {
    #[error(
        "{0} streams are open, which is the most: end one of them, or give the daemon a larger --streams"
    )]
    Full(usize),
    #[error("the daemon has too many questions to answer: ask again in a moment")]
    Busy,
    #[error("the daemon is about to end")]
    Ended,
}

/// The way to the observer.
#[derive(Clone, Debug)]
pub struct Desk {
    requests: mpsc::Sender<Request>,
    places: Arc<Semaphore>,
    most: usize,
}

impl Desk {
    /// Both ends; at most `most` streams are open at a time.
    #[must_use]
    pub fn new(most: usize) -> (Self, mpsc::Receiver<Request>) {
        let (requests, receiver) = mpsc::channel(ROOM);
        (
            Self { requests, places: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))), most },
            receiver,
        )
    }

    /// How all watched pods are now, in the order of their names.
    pub async fn pods(&self) -> Result<Vec<PodStatus>, DeskError> {
        let (answer, answered) = oneshot::channel();
        self.ask(Request::Pods(answer))?;
        answered.await.map_err(|_| DeskError::Ended)
    }

    /// The drains that go on, as far as they are known: of the pod with this UID, or of all.
    pub async fn draining(&self, uid: Option<String>) -> Result<Vec<Record>, DeskError> {
        let (answer, answered) = oneshot::channel();
        self.ask(Request::Draining(uid, answer))?;
        answered.await.map_err(|_| DeskError::Ended)
    }

    /// What happens from now on.
    pub fn follow(&self, ask: Ask) -> Result<mpsc::Receiver<Arc<Message>>, DeskError> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| DeskError::Full(self.most))?;
        let (reader, receiver) = Reader::new(ask, place);
        self.ask(Request::Follow(reader))?;
        Ok(receiver)
    }

    fn ask(&self, request: Request) -> Result<(), DeskError> {
        self.requests.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => DeskError::Busy,
            TrySendError::Closed(_) => DeskError::Ended,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises more streams and questions than there may be, so that each is refused with its cause, and a stream that ends
    /// makes room.
    #[tokio::test]
    async fn limits() {
        let (desk, mut requests) = Desk::new(2);
        let first = desk.follow(Ask::default()).unwrap();
        let _second = desk.follow(Ask::default()).unwrap();
        assert_eq!(desk.follow(Ask::default()).unwrap_err(), DeskError::Full(2));
        drop((first, requests.recv().await));
        desk.follow(Ask::default()).unwrap();
        for _ in 2..ROOM {
            let (answer, _) = oneshot::channel();
            desk.ask(Request::Pods(answer)).unwrap();
        }
        assert_eq!(desk.pods().await.unwrap_err(), DeskError::Busy);
        drop(requests);
        assert_eq!(desk.pods().await.unwrap_err(), DeskError::Ended);
    }
}
