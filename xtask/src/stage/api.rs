//! As much of a Kubernetes API server as a daemon needs that follows the pods of its node: lists and watches of all
//! pods on a node, streamed lists among them, without a check of who asks. What it does not know it refuses.

mod store;

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::serve::{Body, Lines, Request, Response, Server};
use store::{Store, Watch};

/// The only resource.
const PODS: &str = "/api/v1/pods";

/// The only field that is selected by; `=` is written so in a query.
const SELECTOR: &str = "spec.nodeName%3D";

/// How long a watch lasts that does not say so.
const WATCH: Duration = Duration::from_secs(300);

/// The server. When it is dropped, watches end.
#[derive(Debug)]
pub struct Api {
    store: Arc<Store>,
    server: Server,
}

impl Api {
    /// Starts it, on loopback, without any pod.
    pub fn start() -> Result<Self> {
        let store = Arc::new(Store::default());
        let asked = Arc::clone(&store);
        let server = Server::start(move |request| answer(&asked, request))?;
        Ok(Self { store, server })
    }

    /// Writes a kubeconfig by which it is reached.
    pub fn write_kubeconfig(&self, file: &Path) -> Result<()> {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": {"server": format!("http://{}", self.server.address())}}],
            "users": [{"name": "gt", "user": {}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "gt"}}],
            "current-context": "lab",
        });
        // JSON is YAML.
        fs::write(file, config.to_string()).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Takes a pod, known by its `metadata.uid`: a new one, or in the place of what was known of it.
    pub fn apply(&self, pod: &Value) {
        self.store.apply(pod);
    }

    /// Lets a pod go; one that is not there is no fault.
    pub fn delete(&self, uid: &str) {
        self.store.delete(uid);
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.store.close();
    }
}

fn answer(store: &Arc<Store>, request: &Request) -> Response {
    let get = |name: &str| {
        let mut pairs = request.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    if request.method != "GET" || request.path != PODS {
        return refuse(404, "NotFound", &format!("{} {} is not known here", request.method, request.path));
    }
    let Some(node) = get("fieldSelector").and_then(|selector| selector.strip_prefix(SELECTOR)) else {
        return refuse(
            400,
            "BadRequest",
            "pods are told of one node: ask with fieldSelector=spec.nodeName=NODE",
        );
    };
    if get("labelSelector").is_some() || get("continue").is_some() {
        return refuse(400, "BadRequest", "there are neither selectors of labels nor further pages");
    }
    if get("watch") != Some("true") {
        return Response::new(200, store.list(node).to_string());
    }
    let limit = get("timeoutSeconds").and_then(|text| text.parse().ok()).map_or(WATCH, Duration::from_secs);
    let until = Instant::now() + limit;
    let is_streamed = get("sendInitialEvents") == Some("true");
    let since = get("resourceVersion").and_then(|text| text.parse().ok()).filter(|version| *version > 0);
    let watch = match (is_streamed, since) {
        (true, _) => Watch::with_list(store, node, until),
        (false, Some(since)) => Watch::since(store, node, since, until),
        (false, None) => {
            return refuse(400, "BadRequest", "a watch begins with a list, or at a resourceVersion above 0");
        }
    };
    Response { status: 200, body: Body::Lines(Lines(Box::new(watch))), close: false }
}

fn refuse(code: u16, reason: &str, message: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    Response::new(code, status.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(query: &str) -> Response {
        let request = Request {
            method: "GET".to_owned(),
            path: PODS.to_owned(),
            query: query.to_owned(),
            from_loopback: true,
        };
        answer(&Arc::new(Store::default()), &request)
    }

    /// Exercises questions that the server cannot answer so that none gets the answer to another.
    #[test]
    fn questions() {
        assert_eq!(ask("&fieldSelector=spec.nodeName%3Dworker1&limit=100").status, 200);
        for refused in [
            "",
            "fieldSelector=status.phase%3DRunning",
            "fieldSelector=spec.nodeName%3Dn&labelSelector=a%3Db",
            "fieldSelector=spec.nodeName%3Dn&continue=x",
            "fieldSelector=spec.nodeName%3Dn&watch=true&resourceVersion=0",
        ] {
            assert_eq!(ask(refused).status, 400, "{refused}");
        }
        let streamed = "watch=true&timeoutSeconds=1&fieldSelector=spec.nodeName%3Dn&sendInitialEvents=true\
                        &resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        assert!(matches!(ask(streamed).body, Body::Lines(_)));
    }
}
