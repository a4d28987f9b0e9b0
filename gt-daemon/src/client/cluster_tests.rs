//! A stand-in for the API server: lists of pods, and ports forwarded as a kubelet does, by a websocket of the subprotocol
//! `v4.channel.k8s.io` (k8s.io/kubelet/pkg/cri/streaming/portforward/websocket.go): two channels a port, of data and of
//! errors, each begun with the port's number in two bytes, little-endian.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{
    Router,
    extract::{Path, RawQuery, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message as Frame, handshake::derive_accept_key, protocol::Role},
};

use super::*;
use crate::{
    api::message::Message,
    client::{Fault, Messages, Way, connect, stand_in::StandIn},
};

/// What the cluster has, and what it lets this user do.
#[derive(Default)]
struct Api {
    /// Namespace, name, node (empty: none yet), labels, and whether it runs.
    pods: Vec<(&'static str, &'static str, &'static str, &'static str, bool)>,
    /// Where each daemon's port leads.
    ports: BTreeMap<&'static str, u16>,
    forbids: bool,
    forwarded: Vec<String>,
}

type Shared = Arc<Mutex<Api>>;

fn locked(api: &Shared) -> std::sync::MutexGuard<'_, Api> {
    api.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pairs(query: Option<String>) -> BTreeMap<String, String> {
    form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect()
}

fn json(status: StatusCode, value: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

async fn list(
    State(api): State<Shared>,
    Path(namespace): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = pairs(query);
    let selector = query.get("labelSelector").cloned().unwrap_or_default();
    let node =
        query.get("fieldSelector").and_then(|field| field.strip_prefix("spec.nodeName=")).map(str::to_owned);
    let items: Vec<_> = locked(&api)
        .pods
        .iter()
        .filter(|(of, _, _, labels, _)| *of == namespace && (selector.is_empty() || *labels == selector))
        .filter(|(_, _, on, ..)| node.as_deref().is_none_or(|node| node == *on))
        .map(|(namespace, name, node, labels, runs)| {
            let label = labels.split_once('=').unwrap_or_default();
            json!({
                "metadata": {"namespace": namespace, "name": name, "labels": {label.0: label.1}},
                "spec": {"containers": [], "nodeName": (!node.is_empty()).then_some(node)},
                "status": {"phase": if *runs { "Running" } else { "Pending" }},
            })
        })
        .collect();
    json(StatusCode::OK, &json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items}))
}

async fn forward(
    State(api): State<Shared>,
    Path((namespace, name)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    mut request: Request,
) -> Response {
    let query = pairs(query);
    let (to, forbids) = {
        let mut api = locked(&api);
        api.forwarded.push(format!("{namespace}/{name}:{}", query["ports"]));
        (api.ports.get(name.as_str()).copied(), api.forbids)
    };
    if forbids {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403,
            "reason": "Forbidden", "message": "pods \"gt\" is forbidden: cannot create resource \"pods/portforward\""});
        return json(StatusCode::FORBIDDEN, &status);
    }
    let protocols = headers[header::SEC_WEBSOCKET_PROTOCOL].to_str().unwrap();
    assert!(protocols.split(", ").any(|protocol| protocol == "v4.channel.k8s.io"), "{protocols}");
    let accept = derive_accept_key(headers[header::SEC_WEBSOCKET_KEY].as_bytes());
    let port: u16 = query["ports"].parse().unwrap();
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let upgraded = TokioIo::new(upgrade.await.unwrap());
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, None).await;
        pump(socket, port, to).await;
    });
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("v4.channel.k8s.io"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, HeaderValue::from_str(&accept).unwrap());
    response
}

/// Until either side ends. Without a port to lead to the error channel says so, as a kubelet does.
async fn pump(mut socket: WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>, port: u16, to: Option<u16>) {
    for channel in [0, 1] {
        let [low, high] = port.to_le_bytes();
        socket.send(Frame::binary(vec![channel, low, high])).await.unwrap();
    }
    let stream = match to {
        Some(to) => TcpStream::connect(("127.0.0.1", to)).await.ok(),
        None => None,
    };
    let Some(mut stream) = stream else {
        let refused = [b"\x01", &b"error forwarding port 9465: connection refused"[..]].concat();
        socket.send(Frame::binary(refused)).await.unwrap();
        return;
    };
    let mut block = vec![0; 1 << 14];
    loop {
        tokio::select! {
            read = stream.read(&mut block) => match read {
                Ok(read) if read > 0 => {
                    let data = [&[0][..], &block[..read]].concat();
                    if socket.send(Frame::binary(data)).await.is_err() { return; }
                }
                _ => return,
            },
            frame = socket.next() => match frame {
                Some(Ok(Frame::Binary(data))) if data.first() == Some(&0) => {
                    if stream.write_all(&data[1..]).await.is_err() { return; }
                }
                Some(Ok(_)) => {}
                _ => return,
            },
        }
    }
}

/// A cluster, and the kubeconfig that leads to it.
struct Stage {
    api: Shared,
    dir: tempfile::TempDir,
}

impl Stage {
    async fn new(api: Api) -> Self {
        let api = Arc::new(Mutex::new(api));
        let router = Router::new()
            .route("/api/v1/namespaces/{namespace}/pods", get(list))
            .route("/api/v1/namespaces/{namespace}/pods/{name}/portforward", get(forward))
            .with_state(Arc::clone(&api));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let dir = tempfile::tempdir().unwrap();
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: other\nclusters:\n- name: c\n  cluster: {{server: 'http://{server}'}}\n\
             users:\n- name: u\n  user: {{}}\ncontexts:\n- name: lab\n  context: {{cluster: c, user: u, namespace: edge}}\n\
             - name: other\n  context: {{cluster: none, user: u}}\n"
        );
        std::fs::write(dir.path().join("config"), config).unwrap();
        Self { api, dir }
    }

    async fn way(&self) -> Way {
        let options = ClusterOptions {
            kubeconfig: Some(self.dir.path().join("config").display().to_string()),
            context: Some("lab".to_owned()),
            namespace: None,
            daemon_namespace: "gt-system".to_owned(),
            daemon_selector: "app=gt".to_owned(),
            daemon_port: 9465,
        };
        Way::Cluster(Arc::new(Cluster::open(options).await.unwrap()))
    }

    async fn connect(&self, pods: &[&str], labels: &str) -> Result<Messages, Fault> {
        let pods = pods.iter().map(|pod| (*pod).to_owned()).collect();
        connect(&self.way().await, &Wanted { pods, labels: labels.parse().unwrap() }).await
    }
}

async fn next(messages: &mut Messages) -> Message {
    timeout(Duration::from_secs(20), messages.next()).await.expect("nothing came").expect("the stream ended")
}

/// A cluster with two nodes, a daemon on each, and one that starts.
async fn two_nodes() -> (Stage, [StandIn; 2]) {
    let (first, one) = StandIn::new("n1", &[("edge", "igw-1"), ("edge", "igw-3")], 4).at_port().await;
    let (second, two) = StandIn::new("n2", &[("edge", "igw-2")], 4).at_port().await;
    let api = Api {
        pods: vec![
            ("edge", "igw-1", "n1", "app=igw", true),
            ("edge", "igw-2", "n2", "app=igw", true),
            ("edge", "igw-3", "n1", "app=igw", true),
            ("edge", "pending-1", "", "app=new", false),
            ("edge", "far-1", "n3", "app=far", true),
            ("gt-system", "gt-old", "n1", "app=gt", false),
            ("gt-system", "gt-a", "n1", "app=gt", true),
            ("gt-system", "gt-b", "n2", "app=gt", true),
        ],
        ports: BTreeMap::from([("gt-a", one), ("gt-b", two)]),
        ..Api::default()
    };
    (Stage::new(api).await, [first, second])
}

/// Exercises a pod by a part of its name: its node, the running daemon there, a forwarded port, and what is streamed through it.
#[tokio::test]
async fn a_pod_on_its_node() {
    let (stage, [first, _second]) = two_nodes().await;
    let mut messages = stage.connect(&["igw-3"], "").await.unwrap();
    assert!(matches!(next(&mut messages).await, Message::Hello { node: Some(node), .. } if node == "n1"));
    assert!(matches!(next(&mut messages).await, Message::Pod(status) if status.pod == "igw-3"));
    first.publish("edge", "igw-1", &Message::Lost { messages: 1 });
    first.publish("edge", "igw-3", &Message::Lost { messages: 3 });
    assert_eq!(next(&mut messages).await, Message::Lost { messages: 3 });
    assert_eq!(locked(&stage.api).forwarded, ["gt-system/gt-a:9465"]);
    drop(first);
    assert!(matches!(next(&mut messages).await, Message::Gap { node: Some(node), .. } if node == "n1"));
    // Its DaemonSet puts another one in its place.
    let (_third, three) = StandIn::new("n1", &[("edge", "igw-3")], 4).at_port().await;
    {
        let mut api = locked(&stage.api);
        api.pods.retain(|pod| pod.1 != "gt-a");
        api.pods.push(("gt-system", "gt-c", "n1", "app=gt", true));
        api.ports.insert("gt-c", three);
    }
    assert!(matches!(next(&mut messages).await, Message::Hello { .. }));
}

/// Exercises pods by labels that are on two nodes, and the drains of all, so that every daemon is asked.
#[tokio::test]
async fn several_nodes() {
    let (stage, _daemons) = two_nodes().await;
    let mut messages = stage.connect(&["igw-1", "edge/igw-2"], "").await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(match next(&mut messages).await {
            Message::Hello { node, .. } => node.unwrap(),
            Message::Pod(status) => status.pod,
            other => panic!("{other:?}"),
        });
    }
    seen.sort();
    assert_eq!(seen, ["igw-1", "igw-2", "n1", "n2"]);
    assert_eq!(stage.way().await.drains().await.unwrap(), []);
}

/// Exercises what a cluster may lack or forbid, so that each error names it and what helps.
#[tokio::test]
async fn faults() {
    let (stage, _daemons) = two_nodes().await;
    let message =
        async |pods: &[&str], labels: &str| stage.connect(pods, labels).await.unwrap_err().to_string();
    assert!(message(&["igw-9"], "").await.contains("there are edge/igw-"), "close names");
    assert!(message(&["nowhere/x"], "").await.contains("namespace nowhere"));
    assert!(message(&["igw"], "").await.contains("several"));
    assert!(message(&["pending"], "").await.contains("no node yet"));
    assert!(message(&["far"], "").await.contains("--daemon-selector"));
    assert!(message(&[], "app=none").await.contains("app=none"));
    locked(&stage.api).ports.clear();
    let closed = message(&["igw-1"], "").await;
    assert!(closed.contains("node n1"), "{closed}");
    locked(&stage.api).forbids = true;
    let forbidden = message(&["igw-1"], "").await;
    assert!(forbidden.contains("gt-system/gt-a") && forbidden.contains("rights"), "{forbidden}");
}
