//! What clients find behind the local door.
//!
//! - `GET /v1/pods`: how all watched pods are, a list of [`PodStatus`](super::message::PodStatus).
//! - `GET /v1/drains`: the last drains, the oldest first, a list of [`Listed`].
//! - `GET /v1/drains/{id}`: one of them with its facts, [`Whole`].
//! - `GET /v1/stream?pod=[NS/]NAME&select=LABELS`: what happens from now on, `text/event-stream` of
//!   [`Message`](super::message::Message).
//!
//! And the pages of [`pages`]. What goes wrong is told as `{"error": ".."}`.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Path, RawQuery, Request, State},
    http::{HeaderValue, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response, Sse, sse},
    routing::get,
};
use futures_util::{Stream, StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use tokio::{sync::mpsc, time::timeout};

use super::{
    ask::Ask,
    desk::{Desk, DeskError},
    message::Message,
    pages,
};
use crate::{
    clock::Moment,
    drain::{
        fact::{Timed, stamp},
        ledger::Ledger,
        record::{Record, Summary},
    },
};

/// A stream in which nothing happens says so as often, so that a client knows that it is still there.
pub const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// How long the observer may take to say how pods are.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// What is shown.
#[derive(Clone, Debug)]
pub struct Views {
    pub desk: Desk,
    pub ledger: Arc<Ledger>,
    /// The name of this node, where it is known.
    pub node: Option<String>,
}

/// A drain in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// By which it is asked for; the name of its directory where records are kept in files.
    pub id: String,
    /// The daemon's node, where it is known.
    pub node: Option<String>,
    #[serde(flatten)]
    pub summary: Summary,
}

/// A drain with all its facts, in order of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Whole {
    #[serde(flatten)]
    pub listed: Listed,
    pub timeline: Vec<Timed>,
}

/// What goes wrong, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub error: String,
}

/// All routes.
pub fn router(views: Views) -> Router {
    Router::new()
        .route("/v1/pods", get(pods))
        .route("/v1/drains", get(drains))
        .route("/v1/drains/{id}", get(drain))
        .route("/v1/stream", get(follow))
        .merge(pages::routes())
        .fallback(async |uri: Uri| fault(StatusCode::NOT_FOUND, format!("there is no {}", uri.path())))
        .layer(middleware::from_fn(local_names_only))
        .with_state(views)
}

/// A page in somebody's browser can reach a port on that person's machine by a name of its own, which the browser then
/// sends along.
async fn local_names_only(request: Request, next: Next) -> Response {
    let is_local = |host: &HeaderValue| {
        let host = host.to_str().unwrap_or_default();
        let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|digit| digit.is_ascii_digit()));
        ["localhost", "127.0.0.1", "[::1]"].contains(&name.map_or(host, |(name, _)| name))
    };
    if request.headers().get(header::HOST).is_none_or(is_local) {
        next.run(request).await
    } else {
        fault(
            StatusCode::FORBIDDEN,
            "ask for localhost or 127.0.0.1: this is for this machine alone".to_owned(),
        )
    }
}

async fn pods(State(views): State<Views>) -> Response {
    match timeout(PATIENCE, views.desk.pods()).await {
        Ok(Ok(pods)) => json(&pods),
        Ok(Err(error)) => unavailable(error),
        Err(_) => fault(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("the observer did not answer within {} s: see the daemon's log", PATIENCE.as_secs()),
        ),
    }
}

async fn drains(State(views): State<Views>) -> Response {
    let records = views.ledger.records();
    json(&records.iter().map(|record| listed(record, &views)).collect::<Vec<_>>())
}

async fn drain(State(views): State<Views>, Path(id): Path<String>) -> Response {
    let records = views.ledger.records();
    match records.iter().rev().find(|record| record.id() == id) {
        Some(record) => json(&Whole { listed: listed(record, &views), timeline: record.facts.clone() }),
        None => fault(
            StatusCode::NOT_FOUND,
            format!("no drain {id:?} is kept in memory: /v1/drains lists those that are"),
        ),
    }
}

fn listed(record: &Record, views: &Views) -> Listed {
    Listed { id: record.id(), node: views.node.clone(), summary: record.summary() }
}

async fn follow(State(views): State<Views>, RawQuery(query): RawQuery) -> Response {
    let pairs: Vec<_> = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect();
    let ask = match Ask::of_query(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))) {
        Ok(ask) => ask,
        Err(error) => return fault(StatusCode::BAD_REQUEST, error),
    };
    match views.desk.follow(ask) {
        Ok(receiver) => {
            let hello = Message::Hello {
                node: views.node,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                now: stamp(Moment::now().utc_us),
            };
            let events = stream::iter([Arc::new(hello)]).chain(heard(receiver));
            let keep_alive = sse::KeepAlive::new().interval(KEEP_ALIVE).text("");
            Sse::new(events.map(|message| event(&message))).keep_alive(keep_alive).into_response()
        }
        Err(error) => unavailable(error),
    }
}

fn heard(receiver: mpsc::Receiver<Arc<Message>>) -> impl Stream<Item = Arc<Message>> {
    stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)))
}

fn event(message: &Message) -> Result<sse::Event, Infallible> {
    // JSON of these types cannot fail, and has no line ends.
    Ok(sse::Event::default().data(serde_json::to_string(message).unwrap_or_default()))
}

fn unavailable(error: DeskError) -> Response {
    let mut response = fault(StatusCode::SERVICE_UNAVAILABLE, error.to_string());
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn fault(status: StatusCode, error: String) -> Response {
    let mut response = json(&Fault { error });
    *response.status_mut() = status;
    response
}

fn json<T: Serialize>(value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(mut text) => {
            text.push(b'\n');
            ([(header::CONTENT_TYPE, "application/json")], Body::from(text)).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
