//! `text/event-stream`, as far as the daemon writes it: `data:` lines of whole messages, and comments. Pure.

use crate::api::message::Message;

/// The longest line: a verdict with all its reasons and gaps.
const LONGEST: usize = 8 << 20;

/// Why what comes is no stream of the daemon's.
#[derive(Debug, thiserror::Error)]
pub(super) enum EventError {
    #[error("a line has more than {LONGEST} bytes")]
    Long,
    #[error("no message of this version of gt: {0}")]
    Message(#[from] serde_json::Error),
}

/// What came, up to the end of the last whole line.
#[derive(Debug, Default)]
pub(super) struct Events {
    rest: Vec<u8>,
    /// How much of it was looked through in vain.
    looked: usize,
}

impl Events {
    /// Takes bytes in.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), EventError> {
        self.rest.extend_from_slice(bytes);
        if self.rest.len() > LONGEST && !self.rest.contains(&b'\n') {
            return Err(EventError::Long);
        }
        Ok(())
    }

    /// The next message that is whole.
    pub(super) fn next(&mut self) -> Result<Option<Message>, EventError> {
        let mut begun = 0;
        let mut message = None;
        while let Some(length) = self.rest.iter().skip(begun.max(self.looked)).position(|byte| *byte == b'\n')
        {
            let end = begun.max(self.looked) + length;
            self.looked = 0;
            let line = self.rest.get(begun..end).unwrap_or_default();
            begun = end + 1;
            if let Some(data) = line.strip_prefix(b"data:") {
                message = Some(serde_json::from_slice(data)?);
                break;
            }
        }
        self.rest.drain(..begun);
        if message.is_none() {
            self.looked = self.rest.len();
        }
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(messages: u64) -> Message {
        Message::Lost { messages }
    }

    /// Exercises a stream in pieces of every size, so that no message depends on where it is cut.
    #[test]
    fn pieces() {
        let text = b":\n\ndata: {\"type\":\"lost\",\"messages\":1}\n\n:\n\ndata:{\"type\":\"lost\",\"messages\":2}\r\n\nevent: x\n\n";
        for size in 1..text.len() {
            let mut events = Events::default();
            let mut found = Vec::new();
            for piece in text.chunks(size) {
                events.push(piece).unwrap();
                while let Some(message) = events.next().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, [lost(1), lost(2)], "{size}");
            assert!(events.rest.is_empty());
        }
    }

    /// Exercises what no daemon sends, so that it ends the stream, and fills no memory.
    #[test]
    fn strangers() {
        let mut events = Events::default();
        events.push(b"data: {\"type\":\"new\"}\n").unwrap();
        assert!(matches!(events.next(), Err(EventError::Message(_))));
        let mut events = Events::default();
        assert!((0..LONGEST).step_by(1 << 16).any(|_| events.push(&[b'x'; (1 << 16) + 1]).is_err()));
    }
}
