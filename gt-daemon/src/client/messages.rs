//! A stream of messages, wherever they come from.

use tokio::sync::mpsc;

use crate::api::message::Message;

/// Messages that wait at most; while they do, the daemon is not read, and leaves out what it has no room for.
const ROOM: usize = 256;

/// What daemons say, of one or of several nodes, in the order of its coming. A connection that breaks is made again, for as
/// long as it takes: that is a [`Message::Gap`] and, later, a [`Message::Hello`].
#[derive(Debug)]
pub struct Messages {
    receiver: mpsc::Receiver<Message>,
}

/// The end at which messages are put in.
pub type Teller = mpsc::Sender<Message>;

impl Messages {
    /// Both ends.
    #[must_use]
    pub fn channel() -> (Teller, Self) {
        let (sender, receiver) = mpsc::channel(ROOM);
        (sender, Self { receiver })
    }

    /// The next message; `None` when nobody is left to tell any. May be dropped while it waits: nothing is lost.
    pub async fn next(&mut self) -> Option<Message> {
        self.receiver.recv().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises the end of a stream, so that what was told before it arrives.
    #[tokio::test]
    async fn nothing_is_lost_at_the_end() {
        let (teller, mut messages) = Messages::channel();
        for lost in 0..3 {
            teller.send(Message::Lost { messages: lost }).await.unwrap();
        }
        drop(teller);
        for lost in 0..3 {
            assert_eq!(messages.next().await, Some(Message::Lost { messages: lost }));
        }
        assert_eq!(messages.next().await, None);
    }
}
