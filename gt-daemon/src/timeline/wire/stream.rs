//! The bytes of one direction of a connection, in their order, each once.

use std::collections::BTreeMap;

/// Bytes ahead of a hole that are kept until it is filled.
const MOST_AHEAD: usize = 1 << 20;

/// One direction.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// The number of the next byte.
    next: Option<u32>,
    /// What came before its turn, by its distance from the byte that is due when it came.
    ahead: BTreeMap<u32, Piece>,
    held: usize,
    /// Whether anything is missing for good.
    pub(super) lost: bool,
}

/// Bytes, of which the capture may have kept the first ones only.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) data: Vec<u8>,
    /// How many bytes follow that were not kept.
    pub(super) missing: usize,
}

impl Stream {
    /// The connection began: the next byte has this number.
    pub(super) fn begin(&mut self, next: u32) {
        *self = Self { next: Some(next), ..Self::default() };
    }

    /// Whether its beginning was seen.
    pub(super) fn is_begun(&self) -> bool {
        self.next.is_some()
    }

    /// Whether bytes before this number were never there.
    pub(super) fn misses(&self, number: u32) -> bool {
        self.next.is_some_and(|next| matches!(number.wrapping_sub(next), 1..0x8000_0000))
    }

    /// Whether bytes are there that wait for others.
    pub(super) fn has_hole(&self) -> bool {
        self.lost || !self.ahead.is_empty()
    }

    /// Takes a segment of `length` bytes, of which `data` was captured; what is next in order by then is given to `take`.
    pub(super) fn put(&mut self, seq: u32, data: &[u8], length: usize, mut take: impl FnMut(&Piece)) {
        if length == 0 || self.lost {
            return;
        }
        let Some(next) = self.next else {
            // Without its beginning nothing is known of it.
            self.lost = true;
            return;
        };
        let distance = seq.wrapping_sub(next);
        let piece = Piece { data: data.to_vec(), missing: length.saturating_sub(data.len()) };
        if distance < 1 << 31 {
            self.keep(distance, piece);
        } else {
            let known = usize::try_from(next.wrapping_sub(seq)).unwrap_or(usize::MAX);
            if known >= length {
                return;
            }
            // Sent again, with more behind.
            let rest = piece.data.get(known..).unwrap_or_default().to_vec();
            let missing = length - known - rest.len();
            self.keep(0, Piece { data: rest, missing });
        }
        self.give(&mut take);
    }

    fn keep(&mut self, distance: u32, piece: Piece) {
        let size = piece.data.len() + 64;
        let better = |old: &Piece| old.data.len() + old.missing < piece.data.len() + piece.missing;
        if self.ahead.get(&distance).is_none_or(better) {
            self.held += size;
            self.ahead.insert(distance, piece);
        }
        if self.held > MOST_AHEAD {
            self.lost = true;
            self.ahead.clear();
        }
    }

    fn give(&mut self, take: &mut impl FnMut(&Piece)) {
        while let Some(entry) = self.ahead.first_entry()
            && *entry.key() == 0
        {
            let piece = entry.remove();
            self.held = self.held.saturating_sub(piece.data.len() + 64);
            let length = piece.data.len() + piece.missing;
            take(&piece);
            let Ok(step) = u32::try_from(length) else {
                self.lost = true;
                return;
            };
            self.next = self.next.map(|next| next.wrapping_add(step));
            for (distance, piece) in std::mem::take(&mut self.ahead) {
                if let Some(left) = distance.checked_sub(step) {
                    self.ahead.insert(left, piece);
                } else {
                    self.overlap(step - distance, &piece);
                }
            }
        }
    }

    /// A piece whose first bytes were given already.
    fn overlap(&mut self, known: u32, piece: &Piece) {
        let (known, length) =
            (usize::try_from(known).unwrap_or(usize::MAX), piece.data.len() + piece.missing);
        if known < length {
            let data = piece.data.get(known..).unwrap_or_default().to_vec();
            let missing = length - known - data.len();
            self.keep(0, Piece { data, missing });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn put(stream: &mut Stream, seq: u32, data: &[u8]) -> String {
        let mut out = String::new();
        stream.put(seq, data, data.len(), |piece| out.push_str(&String::from_utf8_lossy(&piece.data)));
        out
    }

    /// Exercises segments that come twice, too early and overlapping, across the end of the numbers, so that each byte is
    /// given once and in order.
    #[test]
    fn order() {
        let mut stream = Stream::default();
        stream.begin(u32::MAX - 1);
        assert_eq!(put(&mut stream, u32::MAX - 1, b"ab"), "ab");
        assert_eq!(put(&mut stream, u32::MAX - 1, b"ab"), "");
        assert_eq!(put(&mut stream, 3, b"fg"), "");
        assert!(stream.has_hole());
        assert_eq!(put(&mut stream, u32::MAX, b"bcde"), "cdefg");
        assert!(!stream.has_hole() && !stream.misses(5) && !stream.misses(4) && stream.misses(6));
    }

    /// Exercises a stream whose beginning was not seen, so that nothing of it is taken for anything.
    #[test]
    fn no_beginning() {
        let mut stream = Stream::default();
        assert_eq!(put(&mut stream, 7, b"ab"), "");
        assert!(stream.has_hole());
    }

    proptest! {
        /// Exercises a text in segments in any order, some of them twice, so that it comes out whole.
        #[test]
        fn any_order(cuts in prop::collection::vec(1_usize..9, 1..12), order in prop::collection::vec(any::<prop::sample::Index>(), 40), first in any::<u32>()) {
            let text: Vec<u8> = (0..cuts.iter().sum::<usize>()).map(|at| b'a' + u8::try_from(at % 26).unwrap()).collect();
            let mut pieces = Vec::new();
            let mut at = 0;
            for length in &cuts {
                pieces.push((at, &text[at..at + length]));
                at += length;
            }
            let mut stream = Stream::default();
            stream.begin(first);
            let mut out = String::new();
            let all: Vec<_> = order.iter().map(|index| pieces[index.index(pieces.len())]).chain(pieces.iter().copied()).collect();
            for (at, data) in all {
                out.push_str(&put(&mut stream, first.wrapping_add(u32::try_from(at).unwrap()), data));
            }
            prop_assert_eq!(out.as_bytes(), &text[..]);
            prop_assert!(!stream.has_hole());
        }
    }
}
