//! One connection: HTTP/1.1 with limits on every wait, and the log of what mattered.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WARNING},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpStream, time::timeout};

use crate::{
    answers::{self, Answer},
    fsm::State,
    log::{Limit, Line},
    sidecar::Sidecar,
};

/// For a request's head to arrive, and for the next one on a connection that is kept.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// A connection ends after this time, whatever it does: a peer that sends requests and reads no answers
/// waits in neither of the above.
const WHOLE_TIME: Duration = Duration::from_secs(300);

/// Bytes of a request's head; hyper's smallest limit.
const HEAD_BYTES: usize = 8192;
const HEADERS: usize = 64;

/// What the log has told about health answers and refusals, over all connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Told(Arc<Mutex<Lines>>);

#[derive(Debug)]
struct Lines {
    /// The stay in OPEN whose first health check was told.
    revision: Option<u64>,
    health: Limit,
    refused: Limit,
}

impl Default for Lines {
    fn default() -> Self {
        Self { revision: None, health: Limit::new(20), refused: Limit::new(5) }
    }
}

/// Serves until either side closes or a limit is reached.
pub(super) async fn serve(stream: TcpStream, peer: SocketAddr, sidecar: Sidecar, told: Told) {
    // Without it an answer may wait for the acknowledgement of the one before.
    let _slower_without = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answers::answer(&sidecar, request.method(), request.uri().path(), peer.ip());
        told.tell(&sidecar, &request, peer, &answer);
        async move { Ok::<_, Infallible>(response(answer)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    // A peer that is slow, sends no HTTP or goes away is no event of the gateway's.
    let _how_it_ended = timeout(WHOLE_TIME, connection).await;
}

fn response(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(answer.body));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(allow) = answer.allow {
        headers.insert(ALLOW, HeaderValue::from_static(allow));
    }
    if let Some(warning) = answer.warning.and_then(|warning| HeaderValue::from_str(&warning).ok()) {
        headers.insert(WARNING, warning);
    }
    response
}

impl Told {
    /// Tells health checks: the first of each stay in OPEN, and every one while a drain is on, since which
    /// answer the LB had when is what an inquiry asks for. Tells calls that were refused.
    fn tell(&self, sidecar: &Sidecar, request: &Request<Incoming>, peer: SocketAddr, answer: &Answer) {
        let path = request.uri().path();
        let line = |event: &str, untold: u64| {
            Line::new(SystemTime::now(), event)
                .with("path", path)
                .with("code", answer.status.as_u16())
                .with("peer", peer)
                .with_some("untold", (untold > 0).then_some(untold))
        };
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = matches!(answer.status, StatusCode::FORBIDDEN | StatusCode::CONFLICT);
        if refused && let Some(untold) = lines.refused.pass(Instant::now()) {
            sidecar.log().tell(line("refused", untold).with("why", answer.body.trim_end()));
        }
        if path != "/health_check.html" || answer.status == StatusCode::METHOD_NOT_ALLOWED {
            return;
        }
        let view = sidecar.view();
        let revision = Some(view.machine.revision());
        if view.state() == State::Open && lines.revision == revision {
            return;
        }
        if let Some(untold) = lines.health.pass(Instant::now()) {
            lines.revision = revision;
            sidecar.log().tell(line("health_check", untold));
        }
    }
}
