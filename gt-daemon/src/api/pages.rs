//! Pages for people behind the local door.
//!
//! - `GET /`: the drains that go on, and the last ones that are over, the newest first.
//! - `GET /drains/{id}`: the page of one that is over.
//! - `GET /draining/{uid}`: the page of a pod's drain that goes on, as far as it is known; when it is over, that of its last
//!   one. It is asked for again by itself while the drain goes on.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use tokio::{task::spawn_blocking, time::timeout};

use super::routes::{PATIENCE, Views};
use crate::{
    drain::record::Record,
    report::{
        html::{POLICY, document},
        index::{Entry, index},
        page::{Page, page},
    },
};

/// What is said when drains that go on are not known.
const SILENT: &str = "the observer did not answer: drains that go on are not shown; see the daemon's log";

/// All pages.
pub(super) fn routes() -> Router<Views> {
    Router::new()
        .route("/", get(list))
        .route("/drains/{id}", get(over))
        .route("/draining/{uid}", get(draining))
}

async fn list(State(views): State<Views>) -> Response {
    let going = going_on(&views, None).await;
    let remark = going.is_none().then_some(SILENT);
    let mut entries: Vec<Entry> =
        going.unwrap_or_default().iter().map(|record| entry(record, true)).collect();
    entries.sort_by(|one, other| other.summary.began.cmp(&one.summary.began));
    entries.extend(views.ledger.records().iter().rev().map(|record| entry(record, false)));
    html(StatusCode::OK, move || index(views.node.as_deref(), remark, &entries)).await
}

fn entry(record: &Record, goes_on: bool) -> Entry {
    let href = if goes_on {
        format!("/draining/{}", in_path(&record.uid))
    } else {
        format!("/drains/{}", record.id())
    };
    Entry { href, summary: record.summary(), goes_on }
}

/// A pod's UID as a part of a path.
fn in_path(text: &str) -> String {
    // In a path a plus is one.
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

async fn over(State(views): State<Views>, Path(id): Path<String>) -> Response {
    match views.ledger.records().into_iter().rev().find(|record| record.id() == id) {
        Some(record) => shown(record, false).await,
        None => unknown().await,
    }
}

async fn draining(State(views): State<Views>, Path(uid): Path<String>) -> Response {
    let going = going_on(&views, Some(uid.clone())).await.and_then(|mut records| records.pop());
    if let Some(record) = going {
        return shown(Arc::new(record), true).await;
    }
    match views.ledger.records().into_iter().rev().find(|record| record.uid == uid) {
        Some(record) => shown(record, false).await,
        None => unknown().await,
    }
}

/// Drains that go on: of one pod, or of all; `None` when the observer does not answer.
async fn going_on(views: &Views, uid: Option<String>) -> Option<Vec<Record>> {
    timeout(PATIENCE, views.desk.draining(uid)).await.ok()?.ok()
}

async fn shown(record: Arc<Record>, goes_on: bool) -> Response {
    html(StatusCode::OK, move || page(&Page { record: &record, goes_on, remarks: &[], home: Some("/") }))
        .await
}

async fn unknown() -> Response {
    let body = maud::html! {
        main {
            h1 { "No such drain" }
            p { "It is not kept in memory, or never was. " a href="/" { "All drains" } }
        }
    };
    html(StatusCode::NOT_FOUND, move || document("No such drain", None, &body)).await
}

/// Writes a page off the runtime: one of thousands of facts takes a while.
async fn html(status: StatusCode, write: impl FnOnce() -> String + Send + 'static) -> Response {
    let Ok(page) = spawn_blocking(write).await else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "cannot write the page: see the daemon's log\n")
            .into_response();
    };
    let headers: [(HeaderName, String); 4] = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_SECURITY_POLICY, format!("{}; frame-ancestors 'none'", *POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    (status, headers, page).into_response()
}

#[cfg(test)]
mod tests {
    use axum::{
        body::{Body, to_bytes},
        http::Request,
    };
    use tokio::sync::mpsc;
    use tower::ServiceExt as _;

    use super::*;
    use crate::{
        api::{
            desk::{self, Desk},
            routes::router,
        },
        drain::{
            fact::{Fact, Timed},
            ledger::Ledger,
        },
    };

    fn record(pod: &str, uid: &str, facts: &[(i64, Fact)]) -> Record {
        let facts = facts.iter().map(|(ts, fact)| Timed { ts: *ts, fact: fact.clone() }).collect();
        Record::of("edge", pod, uid, facts, 0).unwrap()
    }

    async fn get(router: &Router, path: &str) -> (StatusCode, String, Response) {
        let request = Request::get(path).header("host", "localhost:9465").body(Body::empty()).unwrap();
        let mut response = router.clone().oneshot(request).await.unwrap();
        let body = to_bytes(std::mem::take(response.body_mut()), usize::MAX).await.unwrap();
        (response.status(), String::from_utf8(body.to_vec()).unwrap(), response)
    }

    /// An observer in which one drain goes on.
    async fn observe(mut requests: mpsc::Receiver<desk::Request>, going: Record) {
        while let Some(request) = requests.recv().await {
            if let desk::Request::Draining(uid, answer) = request {
                let is_asked = uid.is_none_or(|uid| uid == going.uid);
                let _asker_is_gone = answer.send(is_asked.then(|| going.clone()).into_iter().collect());
            }
        }
    }

    /// Exercises the list, a drain that goes on and one that is over, so that each leads to its page, only the first is asked
    /// for again, and all are sent with their policy.
    #[tokio::test]
    async fn pages() {
        let deleted = Fact::PodDeleted { grace_seconds: 30 };
        let over = record("old", "uid-1", &[(1, deleted.clone()), (5, Fact::PodGone), (9, Fact::Ended)]);
        let id = over.id();
        let ledger = Arc::new(Ledger::new(10));
        ledger.over(&Arc::new(over));
        let (desk, requests) = Desk::new(1);
        let observer = tokio::spawn(observe(requests, record("new", "uid 2", &[(1_000_000, deleted)])));
        let router = router(Views { desk, ledger, node: Some("worker-1".to_owned()) });

        let (status, list, response) = get(&router, "/").await;
        assert_eq!(status, StatusCode::OK);
        assert!(
            list.contains("Drains on worker-1")
                && list.find("edge/new").unwrap() < list.find("edge/old").unwrap()
        );
        assert!(
            list.contains(&format!("href=\"/drains/{id}\"")) && list.contains("href=\"/draining/uid%202\"")
        );
        let policy = response.headers().get(header::CONTENT_SECURITY_POLICY).unwrap().to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));

        let (status, live, _) = get(&router, "/draining/uid%202").await;
        assert!(
            status == StatusCode::OK && live.contains("http-equiv=\"refresh\"") && live.contains("so far")
        );
        for path in [format!("/drains/{id}"), "/draining/uid-1".to_owned()] {
            let (status, page, _) = get(&router, &path).await;
            assert!(status == StatusCode::OK && page.contains("Drain of edge/old"), "{path}");
            assert!(!page.contains("http-equiv=\"refresh\""), "{path}");
        }
        assert_eq!(get(&router, "/drains/none").await.0, StatusCode::NOT_FOUND);

        observer.abort();
        let _ended = observer.await;
        let (status, list, _) = get(&router, "/").await;
        assert!(status == StatusCode::OK && list.contains("edge/old") && list.contains(SILENT));
    }
}
