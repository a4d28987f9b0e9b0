//! HTTP/2 on a connection: which streams are open, and which were reset while they were (RFC 9113). Frames' heads are enough:
//! what is in them, compressed headers among it, is passed over.

use std::collections::BTreeSet;

use super::stream::Piece;

/// What a client says first.
const PREFACE: usize = 24;
const HEAD: usize = 9;

/// Streams that are open at a time on one connection.
const MOST: usize = 65_536;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 1;

/// Both directions.
#[derive(Debug)]
pub(super) struct Http2 {
    client: Frames,
    server: Frames,
    open: BTreeSet<u32>,
    /// The last stream that the client opened: their numbers rise.
    last: u32,
    pub(super) lost: bool,
}

/// Where one direction is.
#[derive(Debug, Default)]
struct Frames {
    head: Vec<u8>,
    /// Bytes that are passed over.
    left: usize,
}

impl Default for Http2 {
    fn default() -> Self {
        Self {
            client: Frames { left: PREFACE, ..Frames::default() },
            server: Frames::default(),
            open: BTreeSet::new(),
            last: 0,
            lost: false,
        }
    }
}

impl Http2 {
    /// Streams whose answers are not whole.
    pub(super) fn in_flight(&self) -> u64 {
        self.open.len().try_into().unwrap_or(u64::MAX)
    }

    /// Bytes of the client; how many streams it reset whose answers were not whole.
    pub(super) fn asked(&mut self, piece: &Piece) -> u64 {
        let (mut reset, mut open, mut last) = (0, std::mem::take(&mut self.open), self.last);
        let is_fine = self.client.take(piece, |kind, _, stream| match kind {
            HEADERS if stream > last => {
                last = stream;
                open.insert(stream);
            }
            RST_STREAM if open.remove(&stream) => reset += 1,
            _ => {}
        });
        (self.open, self.last) = (open, last);
        self.lost |= !is_fine || self.open.len() > MOST;
        reset
    }

    /// Bytes of the pod; how many streams it reset before their answers were whole.
    pub(super) fn answered(&mut self, piece: &Piece) -> u64 {
        let (mut reset, open) = (0, &mut self.open);
        let is_fine = self.server.take(piece, |kind, flags, stream| match kind {
            DATA | HEADERS if flags & END_STREAM != 0 => {
                open.remove(&stream);
            }
            RST_STREAM if open.remove(&stream) => reset += 1,
            _ => {}
        });
        self.lost |= !is_fine;
        reset
    }
}

impl Frames {
    /// Calls `frame` with type, flags and stream of each frame; `false` when they cannot be followed.
    fn take(&mut self, piece: &Piece, mut frame: impl FnMut(u8, u8, u32)) -> bool {
        let mut data = piece.data.as_slice();
        loop {
            let step = self.left.min(data.len());
            data = data.get(step..).unwrap_or_default();
            self.left -= step;
            let Some((byte, rest)) = data.split_first() else { break };
            data = rest;
            self.head.push(*byte);
            if let [a, b, c, kind, flags, w, x, y, z] = *self.head.as_slice() {
                frame(kind, flags, u32::from_be_bytes([w, x, y, z]) & 0x7fff_ffff);
                self.left = u32::from_be_bytes([0, a, b, c]).try_into().unwrap_or(usize::MAX);
                self.head.clear();
            }
        }
        debug_assert!(self.head.len() < HEAD);
        let is_fine = piece.missing <= self.left;
        self.left = self.left.saturating_sub(piece.missing);
        is_fine
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(std::iter::repeat_n(0xaa, usize::from(length)));
        frame
    }

    fn piece(data: &[u8]) -> Piece {
        Piece { data: data.to_vec(), missing: 0 }
    }

    fn preface() -> Vec<u8> {
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()
    }

    /// Exercises two streams of which one is answered and one reset, and a reset after the answer, so that only a stream
    /// that was open is cut.
    #[test]
    fn streams() {
        let mut http = Http2::default();
        let asked =
            [preface(), frame(4, 0, 0, 6), frame(HEADERS, 5, 1, 20), frame(HEADERS, 5, 3, 20)].concat();
        assert_eq!(http.asked(&piece(&asked)), 0);
        assert_eq!(http.in_flight(), 2);
        let answered = [frame(4, 0, 0, 0), frame(HEADERS, 4, 1, 9), frame(DATA, END_STREAM, 1, 30)].concat();
        assert_eq!(http.answered(&piece(&answered)), 0);
        assert_eq!(http.asked(&piece(&[frame(RST_STREAM, 0, 1, 4), frame(RST_STREAM, 0, 3, 4)].concat())), 1);
        // Trailers of a request are no new stream.
        assert_eq!(http.asked(&piece(&frame(HEADERS, 5, 3, 4))), 0);
        assert_eq!((http.in_flight(), http.lost), (0, false));
    }

    /// Exercises frames whose contents or heads were not captured, so that the first are passed over and the second are not guessed.
    #[test]
    fn missing_bytes() {
        let mut http = Http2::default();
        let asked = [preface(), frame(HEADERS, 5, 1, 20)].concat();
        http.asked(&Piece { data: asked[..asked.len() - 15].to_vec(), missing: 15 });
        assert!(http.in_flight() == 1 && !http.lost);
        http.asked(&Piece { data: vec![0, 0], missing: 7 });
        assert!(http.lost);
    }

    proptest! {
        /// Exercises frames cut into pieces anywhere, so that where they end changes nothing.
        #[test]
        fn any_pieces(cuts in prop::collection::vec(1_usize..20, 1..9)) {
            let asked = [preface(), frame(HEADERS, 5, 1, 20), frame(HEADERS, 5, 3, 3), frame(RST_STREAM, 0, 1, 4)].concat();
            let (mut http, mut reset, mut rest) = (Http2::default(), 0, &asked[..]);
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                reset += http.asked(&piece(now));
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!((reset, http.in_flight(), http.lost), (1, 1, false));
        }

        /// Exercises any bytes, so that none panics.
        #[test]
        fn any_bytes(data in prop::collection::vec(any::<u8>(), 0..200), missing in 0_usize..40) {
            let mut http = Http2::default();
            http.asked(&Piece { data: data.clone(), missing });
            http.answered(&Piece { data, missing });
        }
    }
}
