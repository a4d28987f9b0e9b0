//! An answer that cannot fill the memory.
//!
//! kube reads a list whole, and a watch line by line, whatever their length. A server that never ends the line, or
//! the list, would make the daemon grow without end.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::{TryFutureExt as _, future::MapOk};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use tower::{BoxError, Layer, Service};

/// A body that fails once a line of a watch is too long, or anything else as a whole.
#[derive(Debug)]
pub struct Bounded<B> {
    inner: B,
    most: usize,
    is_watch: bool,
    /// Bytes since the last line end of a watch, or since the beginning.
    held: usize,
}

impl<B> Bounded<B> {
    /// At most `most` bytes that must be held together.
    #[must_use]
    pub fn new(inner: B, most: usize, is_watch: bool) -> Self {
        Self { inner, most, is_watch, held: 0 }
    }
}

/// Bounds all answers.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<S> {
    inner: S,
    most: usize,
}

/// Makes [`Bounds`] of so many bytes.
#[derive(Clone, Copy, Debug)]
pub struct BoundsLayer(pub usize);

impl<S> Layer<S> for BoundsLayer {
    type Service = Bounds<S>;

    fn layer(&self, inner: S) -> Bounds<S> {
        Bounds { inner, most: self.0 }
    }
}

/// Puts a bound on an answer.
type Bound<B> = Box<dyn FnOnce(Response<B>) -> Response<Bounded<B>> + Send>;

impl<S, Q, B> Service<Request<Q>> for Bounds<S>
where
    S: Service<Request<Q>, Response = Response<B>>,
{
    type Response = Response<Bounded<B>>;
    type Error = S::Error;
    type Future = MapOk<S::Future, Bound<B>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let is_watch =
            request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
        let most = self.most;
        let bound: Bound<B> =
            Box::new(move |response| response.map(|body| Bounded::new(body, most, is_watch)));
        self.inner.call(request).map_ok(bound)
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
            let line_end = if self.is_watch { data.iter().rposition(|byte| *byte == b'\n') } else { None };
            self.held = match line_end {
                Some(end) => data.len() - end - 1,
                None => self.held.saturating_add(data.len()),
            };
            if self.held > self.most {
                let what = if self.is_watch { "a line of the answer" } else { "the answer" };
                let fault = format!("{what} is longer than {} bytes; it is not read further", self.most);
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
    fn passed(frames: &[&'static str], most: usize, is_watch: bool) -> (usize, bool) {
        let mut body = Bounded::new(Frames(frames.iter().copied().collect()), most, is_watch);
        let mut count = 0;
        loop {
            match Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(Ok(_))) => count += 1,
                Poll::Ready(Some(Err(_))) => return (count, true),
                _ => return (count, false),
            }
        }
    }

    /// Exercises lines of a watch in one frame and over several, so that only too long ones end the answer.
    #[test]
    fn lines() {
        let passed = |frames| passed(frames, 4, true);
        assert_eq!(passed(&["1234\n", "1234\n", "1234\n"]), (3, false));
        assert_eq!(passed(&["12", "34", "\n12", "34"]), (4, false));
        assert_eq!(passed(&["12", "345", "\n"]), (1, true));
        assert_eq!(passed(&["1\n2\n12345"]), (0, true));
        assert_eq!(passed(&[]), (0, false));
    }

    /// Exercises anything else, so that line ends make no room.
    #[test]
    fn documents() {
        assert_eq!(passed(&["12\n", "34", "\n"], 6, false), (3, false));
        assert_eq!(passed(&["12\n", "34", "\n"], 5, false), (2, true));
    }
}
