//! The way to the API: a kubeconfig with a token and a certificate authority, and the rights that are used.

use std::{collections::BTreeSet, net::SocketAddr, path::Path, sync::Arc};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::Mutex,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};

use super::{
    begin, fault, hasty, recorded, selection,
    server::{Answer, Asked, Piece, Server},
    until, until_down, until_up_with, up,
};
use crate::pods::{
    api::{Api, config},
    selection::Selection,
    wake::Sleeper,
};

/// A TLS server with a certificate for 127.0.0.1 of its own making; keeps the heads of requests.
async fn tls_server() -> (SocketAddr, String, Arc<Mutex<Vec<String>>>) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heads);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust the certificate ends the handshake.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = vec![0; 8192];
            let length = stream.read(&mut head).await.unwrap();
            kept.lock().await.push(String::from_utf8_lossy(&head[..length]).into_owned());
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n".to_owned();
            stream.write_all((answer + &recorded("streaming.jsonl")).as_bytes()).await.unwrap();
            tokio::spawn(async move {
                // Kept open until the client goes.
                let _gone = stream.read(&mut [0]).await;
            });
        }
    });
    (address, made.cert.pem(), heads)
}

fn kubeconfig(dir: &Path, address: SocketAddr, authority: Option<&str>) -> String {
    let authority = authority.map_or_else(String::new, |pem| {
        let file = dir.join("ca.crt");
        std::fs::write(&file, pem).unwrap();
        format!("    certificate-authority: {}\n", file.display())
    });
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- name: a\n  context:\n    cluster: c\n    user: \
         u\nclusters:\n- name: c\n  cluster:\n    server: https://{address}\n{authority}users:\n- name: u\n  user:\n    token: \
         a-token\n"
    );
    let file = dir.join("config");
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

async fn by_kubeconfig(file: String) -> Api {
    let mut config = config::load(&config::Access::Kubeconfig(file)).await.unwrap();
    // One of this machine's is not for the server of a test.
    config.proxy_url = None;
    Api::start_with(&config, "worker-1", selection(), Sleeper::new().unwrap().waker(), hasty()).unwrap()
}

/// Exercises TLS with a certificate authority from a kubeconfig, and its token, so that a statically linked
/// daemon reaches a real API server.
#[tokio::test]
async fn a_kubeconfig() {
    let dir = tempfile::tempdir().unwrap();
    let (address, authority, heads) = tls_server().await;
    let mut api = by_kubeconfig(kubeconfig(dir.path(), address, Some(&authority))).await;
    until_up_with(&mut api, &["igw-1", "igw-2"]).await;
    let heads = heads.lock().await;
    assert!(heads[0].starts_with("GET /api/v1/pods?") && heads[0].contains("Bearer a-token"), "{}", heads[0]);
}

/// Exercises a certificate of an authority that is not the kubeconfig's, so that the daemon tells no token to
/// whoever answers.
#[tokio::test]
async fn a_false_server() {
    let dir = tempfile::tempdir().unwrap();
    let (address, _, heads) = tls_server().await;
    let (_, other_authority, _) = tls_server().await;
    let mut api = by_kubeconfig(kubeconfig(dir.path(), address, Some(&other_authority))).await;
    let down = until_down(&mut api).await;
    assert!(fault(&down).contains("certificate"), "{}", fault(&down));
    assert!(heads.lock().await.is_empty());
}

/// The verb that the authorizer of the API sees in a request, and the resource.
fn verb(asked: &Asked) -> (&'static str, &str) {
    let mut parts = asked.path.trim_start_matches("/api/v1/").split('/');
    let resource = match parts.next() {
        Some("namespaces") => parts.nth(1),
        resource => resource,
    };
    let verb = match (asked.method.as_str(), parts.next(), asked.is_watch()) {
        ("GET", None, true) => "watch",
        ("GET", None, false) => "list",
        ("GET", Some(_), _) => "get",
        _ => "other",
    };
    (verb, resource.unwrap_or_default())
}

/// Exercises every kind of request against the rights in deploy/base/rbac.yaml, so that they suffice and hold
/// nothing beyond pods.
#[tokio::test]
async fn rights() {
    let server = Server::start(|asked, n| match n {
        _ if asked.is_streaming() => Answer::file(422, "no-streaming.json"),
        _ if asked.is_watch() && n < 6 => {
            Answer::body(vec![Piece::Wait(std::time::Duration::from_millis(20))])
        }
        _ if asked.is_watch() => Answer::silent(),
        _ if asked.get("continue").is_empty() => Answer::file(200, "list-page-1.json"),
        _ => Answer::file(200, "list-page-2.json"),
    });
    let edge = Selection { namespaces: ["edge".to_owned()].into(), ..selection() };
    for selection in [selection(), edge] {
        let before = server.asked().len();
        let mut api = begin(server.address, selection, hasty());
        until(&mut api, |reading| up(reading) == Some(true) && server.asked().len() >= before + 4).await;
    }
    let used: BTreeSet<_> =
        server.asked().iter().map(|asked| verb(asked)).map(|(v, r)| (v, r.to_owned())).collect();
    let expected = BTreeSet::from([("list", "pods".to_owned()), ("watch", "pods".to_owned())]);
    assert_eq!(used, expected);

    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/base/rbac.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let of = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    assert_eq!(
        of("ClusterRole")["rules"],
        serde_json::json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}])
    );
    let binding = of("ClusterRoleBinding");
    assert_eq!(binding["roleRef"]["name"], of("ClusterRole")["metadata"]["name"]);
    assert_eq!(binding["subjects"][0]["name"], of("ServiceAccount")["metadata"]["name"]);
    assert_eq!(binding["subjects"][0]["namespace"], of("ServiceAccount")["metadata"]["namespace"]);
    assert_eq!(objects.len(), 3);
}
