//! Joins the parts of a line that the container runtime split, per stream, with an end to patience.

use super::runtime::{Entry, Stream};

/// Bytes of one line that are looked at. A transition is a hundred; what is longer is something else.
const MAX_LINE: usize = 64 << 10;

/// A line as hc wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    /// When the runtime read its end.
    pub(super) stamp_us: Option<i64>,
    pub(super) text: Vec<u8>,
}

/// The parts that wait for their end.
#[derive(Clone, Debug, Default)]
pub(super) struct Assembler {
    stdout: Parts,
    stderr: Parts,
}

#[derive(Clone, Debug, Default)]
struct Parts {
    text: Vec<u8>,
    /// The line is too long: what comes until its end is passed over.
    overflowed: bool,
}

impl Assembler {
    /// Takes one entry in; gives the line it ends, if that is short enough to be one of hc's.
    pub(super) fn push(&mut self, entry: &Entry<'_>) -> Option<Whole> {
        let parts = match entry.stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        if parts.overflowed || parts.text.len() + entry.text.len() > MAX_LINE {
            parts.text = Vec::new();
            parts.overflowed = entry.partial;
            return None;
        }
        parts.text.extend_from_slice(&entry.text);
        if entry.partial {
            return None;
        }
        Some(Whole { stamp_us: entry.stamp_us, text: std::mem::take(&mut parts.text) })
    }

    /// Forgets what waits: its end will not come.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn part(stream: Stream, partial: bool, text: &str) -> Entry<'_> {
        Entry { stamp_us: Some(1), stream, partial, text: Cow::Borrowed(text.as_bytes()) }
    }

    fn push(assembler: &mut Assembler, stream: Stream, partial: bool, text: &str) -> Option<String> {
        let whole = assembler.push(&part(stream, partial, text))?;
        Some(String::from_utf8(whole.text).unwrap())
    }

    /// Exercises split lines of two streams between each other, so that each is joined with its own.
    #[test]
    fn streams_do_not_mix() {
        let mut assembler = Assembler::default();
        assert_eq!(push(&mut assembler, Stream::Stdout, true, "event=tran"), None);
        assert_eq!(push(&mut assembler, Stream::Stderr, true, "pan"), None);
        assert_eq!(push(&mut assembler, Stream::Stdout, true, "si"), None);
        assert_eq!(push(&mut assembler, Stream::Stderr, false, "ic"), Some("panic".to_owned()));
        assert_eq!(push(&mut assembler, Stream::Stdout, false, "tion"), Some("event=transition".to_owned()));
    }

    /// Exercises an endless line, so that memory is bounded and the next line is read again.
    #[test]
    fn endless_lines_are_passed_over() {
        let mut assembler = Assembler::default();
        let block = "x".repeat(16 << 10);
        for _ in 0..20 {
            assert_eq!(push(&mut assembler, Stream::Stdout, true, &block), None);
            assert!(assembler.stdout.text.capacity() <= 2 * MAX_LINE);
        }
        assert_eq!(push(&mut assembler, Stream::Stdout, false, "event=transition"), None);
        assert_eq!(push(&mut assembler, Stream::Stdout, false, "next"), Some("next".to_owned()));
        let too_long = "y".repeat(MAX_LINE + 1);
        assert_eq!(push(&mut assembler, Stream::Stdout, false, &too_long), None);
        assert_eq!(push(&mut assembler, Stream::Stdout, false, "next"), Some("next".to_owned()));
    }

    /// Exercises a part whose end never comes.
    #[test]
    fn a_part_can_be_forgotten() {
        let mut assembler = Assembler::default();
        push(&mut assembler, Stream::Stdout, true, "half");
        assembler.clear();
        assert_eq!(push(&mut assembler, Stream::Stdout, false, "whole"), Some("whole".to_owned()));
    }
}
