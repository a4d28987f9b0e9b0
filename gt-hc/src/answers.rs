//! What a request is answered: a table of path and state, and nothing of HTTP's mechanics.

use std::net::IpAddr;

use hyper::{Method, StatusCode};
use serde::{Deserialize, Serialize};

use crate::{
    clock,
    fsm::{Cause, Outcome, Refusal, State},
    sidecar::{Reading, Sidecar, View},
};

/// The body of `/state` and of accepted calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateBody {
    pub state: State,
    /// When the state began: RFC 3339, UTC, microseconds.
    pub since: String,
    /// Requests in flight; `null` when that is not known, which is not zero.
    pub active: Option<u64>,
    /// Why the state began: the word of a cause.
    pub reason: String,
    /// Whether the state stays until somebody asks for another.
    pub settled: bool,
    /// What Envoy told last; absent while nobody asks it, that is in OPEN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envoy: Option<EnvoyBody>,
}

/// Envoy's last answer, or why there was none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvoyBody {
    pub at: String,
    pub downstream: Option<u64>,
    pub upstream: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl From<&View> for StateBody {
    fn from(view: &View) -> Self {
        let envoy = match &view.reading {
            Reading::NotAsked => None,
            Reading::Unknown { why, at } => Some(EnvoyBody {
                at: clock::utc(*at),
                downstream: None,
                upstream: None,
                error: Some(why.clone()),
            }),
            Reading::Known { active, at } => Some(EnvoyBody {
                at: clock::utc(*at),
                downstream: Some(active.downstream),
                upstream: Some(active.upstream),
                error: None,
            }),
        };
        Self {
            state: view.state(),
            since: clock::utc(view.machine.since()),
            active: view.reading.total(),
            reason: view.machine.reason().to_owned(),
            settled: view.settled.is_some(),
            envoy,
        }
    }
}

/// The body of a refused call (409).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalBody {
    pub error: String,
    pub state: State,
    /// The calls that would be accepted now, such as `POST /drain`.
    pub allowed: Vec<String>,
}

impl From<&Refusal> for RefusalBody {
    fn from(refusal: &Refusal) -> Self {
        Self {
            error: refusal.to_string(),
            state: refusal.state,
            allowed: refusal.allowed.iter().map(ToString::to_string).collect(),
        }
    }
}

/// An answer before it becomes bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: StatusCode,
    pub content_type: &'static str,
    pub body: String,
    /// The value of the header `Warning`.
    pub warning: Option<String>,
    /// The value of the header `Allow`.
    pub allow: Option<&'static str>,
}

impl Answer {
    fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.into(),
            warning: None,
            allow: None,
        }
    }

    fn json(status: StatusCode, body: &impl Serialize) -> Self {
        match serde_json::to_string(body) {
            Ok(mut body) => {
                body.push('\n');
                Self { content_type: "application/json", ..Self::text(status, body) }
            }
            Err(error) => {
                Self::text(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write JSON: {error}\n"))
            }
        }
    }
}

const PATHS: &str = "GET /health_check.html, /health, /live, /state; POST /drain, /close-lb, /close, /reopen";

/// Answers a request of `peer`, and changes the state if it asks for that and may.
#[must_use]
pub fn answer(sidecar: &Sidecar, method: &Method, path: &str, peer: IpAddr) -> Answer {
    if let Some(cause) = Cause::of_path(path) {
        return if method == Method::POST { call(sidecar, cause, peer) } else { not_allowed("POST", path) };
    }
    let view = sidecar.view();
    let state = view.state();
    let mut answer = match path {
        "/health_check.html" => Answer::text(code(state.open_to_lb()), format!("{state}\n")),
        "/health" => Answer::text(code(state.ready()), format!("{state}\n")),
        "/live" => Answer::text(StatusCode::OK, "live\n"),
        "/state" => Answer::json(StatusCode::OK, &StateBody::from(&view)),
        _ => {
            return Answer::text(
                StatusCode::NOT_FOUND,
                format!("there is no such path; there are {PATHS}\n"),
            );
        }
    };
    if method != Method::GET && method != Method::HEAD {
        return not_allowed("GET, HEAD", path);
    }
    answer.warning = Sidecar::warning(&view);
    answer
}

fn code(well: bool) -> StatusCode {
    if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

fn not_allowed(allow: &'static str, path: &str) -> Answer {
    let body = format!("{path} answers {allow} only\n");
    Answer { allow: Some(allow), ..Answer::text(StatusCode::METHOD_NOT_ALLOWED, body) }
}

fn call(sidecar: &Sidecar, cause: Cause, peer: IpAddr) -> Answer {
    // An IPv4 peer of a socket that listens on [::] has the form ::ffff:127.0.0.1.
    if !peer.to_canonical().is_loopback() {
        return Answer::text(
            StatusCode::FORBIDDEN,
            format!(
                "{cause} is accepted from inside the pod only, by 127.0.0.1 or ::1; this request came from \
                 {}: run gt-hc in the pod, such as `kubectl exec POD -c hc -- gt-hc drain`\n",
                peer.to_canonical()
            ),
        );
    }
    match sidecar.apply(cause) {
        Ok(Outcome::Changed { .. } | Outcome::Already) => {
            Answer::json(StatusCode::OK, &StateBody::from(&sidecar.view()))
        }
        Err(refusal) => Answer::json(StatusCode::CONFLICT, &RefusalBody::from(&refusal)),
    }
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
