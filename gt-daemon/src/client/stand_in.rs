//! A daemon's door with a stand-in for the observer behind it, for tests.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};

use crate::{
    api::{
        desk::{Desk, Request},
        door::{self, Socket},
        hub::{About, Hub},
        message::{Message, PodStatus},
        routes::{Views, router},
    },
    drain::ledger::Ledger,
};

/// Answers as an observer would that watches certain pods; everything ends when it is dropped.
pub(super) struct StandIn {
    hub: Arc<Mutex<Hub>>,
    pub(super) ledger: Arc<Ledger>,
    views: Views,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for StandIn {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl StandIn {
    /// On a node, with pods of these namespaces and names, and room for so many streams.
    pub(super) fn new(node: &str, pods: &[(&str, &str)], streams: usize) -> Self {
        let (desk, requests) = Desk::new(streams);
        let hub: Arc<Mutex<Hub>> = Arc::default();
        let status = |(namespace, pod): &(&str, &str)| PodStatus {
            namespace: (*namespace).to_owned(),
            pod: (*pod).to_owned(),
            uid: format!("{pod}-uid"),
            node: Some(node.to_owned()),
            ..PodStatus::default()
        };
        let pods = pods.iter().map(status).collect();
        let observer = tokio::spawn(observe(requests, pods, Arc::clone(&hub)));
        let ledger = Arc::new(Ledger::new(10));
        let views = Views { desk, ledger: Arc::clone(&ledger), node: Some(node.to_owned()) };
        Self { hub, ledger, views, tasks: vec![observer] }
    }

    /// Serves at a socket.
    pub(super) fn at(mut self, path: &Path) -> Self {
        let Socket { listener, file } = door::socket(path).unwrap();
        let router = router(self.views.clone());
        self.tasks.push(tokio::spawn(async move {
            let _file = file;
            axum::serve(listener, router).await.unwrap();
        }));
        self
    }

    /// Serves at a port of the loopback device.
    pub(super) async fn at_port(mut self) -> (Self, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = router(self.views.clone());
        self.tasks.push(tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }));
        (self, port)
    }

    /// Tells whoever listens.
    pub(super) fn publish(&self, namespace: &str, pod: &str, message: &Message) {
        let labels = BTreeMap::new();
        let about = About { namespace, pod, labels: Some(&labels) };
        self.hub().publish(about, || message.clone());
    }

    /// Lets the time go on, as the observer does ten times a second.
    pub(super) fn tick(&self) {
        self.hub().tick(0);
    }

    fn hub(&self) -> std::sync::MutexGuard<'_, Hub> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn observe(mut requests: mpsc::Receiver<Request>, pods: Vec<PodStatus>, hub: Arc<Mutex<Hub>>) {
    let none = BTreeMap::new();
    while let Some(request) = requests.recv().await {
        match request {
            Request::Pods(answer) => drop(answer.send(pods.clone())),
            Request::Draining(_, answer) => drop(answer.send(Vec::new())),
            Request::Follow(mut reader) => {
                for status in &pods {
                    let about = About { namespace: &status.namespace, pod: &status.pod, labels: Some(&none) };
                    if reader.wants(about) {
                        reader.tell(&Arc::new(Message::Pod(Box::new(status.clone()))));
                    }
                }
                hub.lock().unwrap_or_else(PoisonError::into_inner).enter(reader);
            }
        }
    }
}
