//! An answer whose lines cannot fill the memory.
//!
//! kube reads a list whole, and a watch line by line, whatever their length. A server that never ends the line
//! would make the daemon grow without end.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use http_body::{Body, Frame, SizeHint};
use tower::BoxError;

/// A body that fails once a line is too long; a list is one line.
#[derive(Debug)]
pub struct Bounded<B> {
    inner: B,
    most: usize,
    /// Bytes since the last line end.
    line: usize,
}

impl<B> Bounded<B> {
    /// At most `most` bytes to a line.
    #[must_use]
    pub fn new(inner: B, most: usize) -> Self {
        Self { inner, most, line: 0 }
    }
}

impl<B> Body for Bounded<B>
where
    B: Body<Error: Into<BoxError>, Data: AsRef<[u8]>> + Unpin,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, BoxError>>> {
        let frame = match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        if let Some(data) = frame.data_ref().map(AsRef::as_ref) {
            self.line = match data.iter().rposition(|byte| *byte == b'\n') {
                Some(end) => data.len() - end - 1,
                None => self.line.saturating_add(data.len()),
            };
            if self.line > self.most {
                let fault = format!(
                    "a line of the answer is longer than {} bytes; it is not read further",
                    self.most
                );
                return Poll::Ready(Some(Err(fault.into())));
            }
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use axum::body::Bytes;

    use super::*;

    /// Frames that are all there at once.
    struct Frames(std::collections::VecDeque<&'static str>);

    impl Body for Frames {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _context: &mut Context<'_>,
        ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
            Poll::Ready(self.0.pop_front().map(|text| Ok(Frame::data(Bytes::from_static(text.as_bytes())))))
        }
    }

    /// How many frames are passed on before the fault, and whether there is one.
    fn passed(frames: &[&'static str], most: usize) -> (usize, bool) {
        let mut body = Bounded::new(Frames(frames.iter().copied().collect()), most);
        let mut count = 0;
        loop {
            match Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(Ok(_))) => count += 1,
                Poll::Ready(Some(Err(_))) => return (count, true),
                _ => return (count, false),
            }
        }
    }

    /// Exercises lines in one frame and over several, so that only too long ones end the answer.
    #[test]
    fn lines() {
        assert_eq!(passed(&["1234\n", "1234\n", "1234\n"], 4), (3, false));
        assert_eq!(passed(&["12", "34", "\n12", "34"], 4), (4, false));
        assert_eq!(passed(&["12", "345", "\n"], 4), (1, true));
        assert_eq!(passed(&["1\n2\n12345"], 4), (0, true));
        assert_eq!(passed(&[], 4), (0, false));
    }
}
