//! The client of the API, with what kube leaves to its users: time limits, a limit on requests, and the
//! server's wish to be left alone for a while.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{HeaderMap, Response, StatusCode, header::RETRY_AFTER};
use kube::{Client, client::ClientBuilder};
use tower::{limit::RateLimitLayer, timeout::TimeoutLayer, util::MapResponseLayer};

use super::bounded::BoundsLayer;

/// The most that is read of what must be held together: a line of a watch, or a page of the list, which is 100 pods.
pub const LONGEST_LINE: usize = 32 << 20;

/// No answer asks for a longer pause than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// How patient the client is.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long the head of an answer may take.
    pub answer: Duration,
    /// At most so many requests in so long a time. kube resumes a watch that ends without a fault at once, so a
    /// server that ends each at once would be asked without pause.
    pub requests: (u64, Duration),
    /// The longest line of a watch, and the longest answer that is none, in bytes.
    pub line: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { answer: Duration::from_secs(30), requests: (10, Duration::from_secs(30)), line: LONGEST_LINE }
    }
}

/// How long the server asked to wait, until somebody has looked.
#[derive(Clone, Debug, Default)]
pub struct AskedPause(Arc<Mutex<Option<Duration>>>);

impl AskedPause {
    /// The pause asked for since the last call.
    #[must_use]
    pub fn take(&self) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, status: StatusCode, headers: &HeaderMap) {
        let asks = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        if asks && let Some(pause) = headers.get(RETRY_AFTER).and_then(|value| seconds(value.to_str().ok()?))
        {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(pause);
        }
    }
}

/// The API server writes seconds, never a date.
fn seconds(text: &str) -> Option<Duration> {
    text.trim().parse().ok().map(|seconds| Duration::from_secs(seconds).min(LONGEST_PAUSE))
}

/// Makes the client. On a runtime; nothing is sent yet.
pub fn client(mut config: kube::Config, limits: Limits) -> Result<(Client, AskedPause), kube::Error> {
    // kube would repeat what the server refused for minutes before it told anybody.
    config.default_retry = false;
    config.connect_timeout = Some(limits.answer);
    let asked = AskedPause::default();
    let noted = asked.clone();
    let look = move |response: Response<_>| {
        noted.note(response.status(), response.headers());
        response
    };
    let (requests, time) = limits.requests;
    let client = ClientBuilder::try_from(config)?
        .with_layer(&BoundsLayer(limits.line))
        .with_layer(&MapResponseLayer::new(look))
        .with_layer(&TimeoutLayer::new(limits.answer))
        .with_layer(&RateLimitLayer::new(requests, time))
        .build();
    Ok((client, asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises the header's forms, so that a wrong or huge one stops nothing.
    #[test]
    fn pauses() {
        assert_eq!(seconds("1"), Some(Duration::from_secs(1)));
        assert_eq!(seconds("86400"), Some(LONGEST_PAUSE));
        for wrong in ["", "-1", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
        let asked = AskedPause::default();
        let headers = HeaderMap::from_iter([(RETRY_AFTER, http::HeaderValue::from_static("7"))]);
        asked.note(StatusCode::OK, &headers);
        assert_eq!(asked.take(), None);
        asked.note(StatusCode::TOO_MANY_REQUESTS, &headers);
        assert_eq!((asked.take(), asked.take()), (Some(Duration::from_secs(7)), None));
    }
}
