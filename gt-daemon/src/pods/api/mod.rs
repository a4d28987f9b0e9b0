//! Pods of this node by the Kubernetes API.
//!
//! One watch for all namespaces, or one for each of `--namespace` ([`watch`]), each on a task of the daemon's
//! runtime. They fill a [`store`], which is read by the thread that follows pods. The requests are `list` and
//! `watch` of pods, with a field selector on the node's name; nothing else is asked.

pub mod annotations;
mod bounded;
pub mod client;
pub mod config;
mod fault;
mod health_ports;
pub mod object;
pub mod pod;
pub mod store;
#[cfg(test)]
mod tests;
pub mod watch;
mod workload;

use std::{sync::Arc, time::Instant};

use tokio::task::JoinSet;

use self::{
    client::{Limits, client},
    config::{Access, ConfigError},
    store::{Link, Store, View},
    watch::{Question, Timing, follow},
};
use super::{
    selection::Selection,
    source::{Place, Reading, Source},
    wake::Waker,
};

/// The name of this source in metrics and logs.
pub const NAME: &str = "api";

/// Watches of the API; they end when this is dropped.
#[derive(Debug)]
pub struct Api {
    store: Arc<Store>,
    _watches: JoinSet<()>,
}

/// How the API is asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    pub limits: Limits,
    pub timing: Timing,
}

impl Api {
    /// Reads how the API is reached, and begins to watch. Whether it answers shows later.
    pub async fn start(
        access: &Access,
        node: &str,
        selection: Selection,
        waker: Waker,
    ) -> Result<Self, ConfigError> {
        let config = config::load(access).await?;
        Self::start_with(&config, node, selection, waker, Manner::default())
    }

    /// As [`start`](Self::start), by a given configuration; on a runtime.
    pub fn start_with(
        config: &kube::Config,
        node: &str,
        selection: Selection,
        waker: Waker,
        manner: Manner,
    ) -> Result<Self, ConfigError> {
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let store = Arc::new(Store::new(selection, waker, Instant::now()));
        let mut watches = JoinSet::new();
        for scope in store.scopes() {
            // Each has a client of its own, and so its own limit on requests.
            let (client, asked) = client(config.clone(), manner.limits)
                .map_err(|cause| ConfigError::Client { server: server.clone(), cause: Box::new(cause) })?;
            let question =
                Question { server: server.clone(), node: node.to_owned(), scope, timing: manner.timing };
            watches.spawn(follow(client, asked, question, Arc::clone(&store)));
        }
        Ok(Self { store, _watches: watches })
    }

    /// What is told now.
    #[must_use]
    pub fn view(&self) -> View {
        self.store.view()
    }

    /// Whose pods are selected how.
    #[must_use]
    pub fn selection(&self) -> &Selection {
        self.store.selection()
    }
}

impl View {
    /// How the API fares, once that is known.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        match &self.link {
            Link::New { .. } => None,
            Link::Up => Some(Place { name: NAME, fault: None }),
            Link::Away { fault, .. } => Some(Place { name: NAME, fault: Some(fault.clone()) }),
        }
    }
}

impl Source for Api {
    fn read(&mut self, _now: Instant) -> Reading {
        let view = self.view();
        let places = view.place().into_iter().collect();
        Reading { pods: view.pods.map(|pods| pods.into_values().collect()), places }
    }
}
