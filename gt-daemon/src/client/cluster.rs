//! Daemons in a cluster, by its API: the node of a pod, the daemon there, and a way to it through the API server.
//!
//! The rights it takes: to get and list pods, where the pods are and where the daemons are, and to create
//! `pods/portforward` where the daemons are.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config, ResourceExt,
    api::ListParams,
    config::{KubeConfigOptions, KubeconfigError},
};
use tokio::{io::DuplexStream, time::timeout};

use super::{
    Wanted,
    names::{self, Known},
};
use crate::{
    api::ask::{Ask, PodName},
    pods::api::config::from_files,
};

/// How long the API server may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// Daemons that are followed at a time.
const MOST: usize = 64;

/// Why no daemon of the cluster can be asked.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("the kubeconfig cannot be used: {0}; check --kubeconfig (or KUBECONFIG) and --context")]
    Kubeconfig(#[from] KubeconfigError),
    #[error(
        "no client can be made for the API server: {0}; check the certificates and credentials of the kubeconfig"
    )]
    Client(kube::Error),
    #[error("the API server does not let {what}: {cause}; {remedy}")]
    Api { what: String, cause: String, remedy: &'static str },
    #[error("{0}")]
    Unknown(String),
    #[error("pod {0} is on no node yet: try again when it is scheduled")]
    Nowhere(String),
    #[error(
        "there is no gt-daemon on node {node}: no running pod with {selector} in namespace {namespace}; give \
         --daemon-namespace and --daemon-selector as it was deployed"
    )]
    NoDaemon { node: String, selector: String, namespace: String },
    #[error(
        "no pod with {selector} runs in namespace {namespace}; give --daemon-namespace and --daemon-selector as gt-daemon \
         was deployed"
    )]
    NoDaemons { selector: String, namespace: String },
    #[error(
        "that is {0} nodes, and at most {MOST} are followed at a time; ask for fewer pods with --pod or --select"
    )]
    Many(usize),
}

/// What is known of a cluster from the command line.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// One file, or several with colons between them; `None`: KUBECONFIG, or the usual place.
    pub kubeconfig: Option<String>,
    pub context: Option<String>,
    /// Where pods are looked for; `None`: the context's.
    pub namespace: Option<String>,
    pub daemon_namespace: String,
    pub daemon_selector: String,
    /// The port of the daemon's loopback device.
    pub daemon_port: u16,
}

/// A cluster that can be asked.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    options: ClusterOptions,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Reads the kubeconfig; nothing is asked yet.
    pub async fn open(options: ClusterOptions) -> Result<Self, ClusterError> {
        let choice = KubeConfigOptions { context: options.context.clone(), ..KubeConfigOptions::default() };
        let config = match &options.kubeconfig {
            Some(files) => from_files(files, &choice).await?,
            None => Config::from_kubeconfig(&choice).await?,
        };
        Ok(Self { client: Client::try_from(config).map_err(ClusterError::Client)?, options })
    }

    /// Where pods of no stated namespace are looked for.
    fn namespace(&self) -> &str {
        self.options.namespace.as_deref().unwrap_or_else(|| self.client.default_namespace())
    }

    /// The nodes on which pods are, and what to ask for there. No pods and no labels: all nodes that have a daemon.
    pub(super) async fn find(&self, wanted: &Wanted) -> Result<BTreeMap<String, Ask>, ClusterError> {
        let mut nodes: BTreeMap<String, Ask> = BTreeMap::new();
        if wanted.pods.is_empty() {
            let ask = Ask { labels: wanted.labels.clone(), ..Ask::default() };
            let names: BTreeSet<_> = if wanted.labels.selects_all() {
                self.daemons(None).await?.into_iter().filter_map(|pod| node(&pod)).collect()
            } else {
                let params = ListParams::default().labels(&wanted.labels.to_string());
                let pods = self.list(self.namespace(), &params).await?;
                if pods.is_empty() {
                    let (labels, namespace) = (&wanted.labels, self.namespace());
                    let none = format!("no pod in namespace {namespace} has the labels {labels}");
                    return Err(ClusterError::Unknown(none));
                }
                pods.iter().filter_map(node).collect()
            };
            nodes.extend(names.into_iter().map(|node| (node, ask.clone())));
        }
        for asked in &wanted.pods {
            let pod = self.pod(asked).await?;
            let name = PodName { namespace: pod.namespace(), name: pod.name_any() };
            let node = node(&pod).ok_or_else(|| ClusterError::Nowhere(name.to_string()))?;
            let ask = nodes.entry(node).or_default();
            ask.labels = wanted.labels.clone();
            ask.pods.push(name);
        }
        if nodes.len() > MOST {
            return Err(ClusterError::Many(nodes.len()));
        }
        Ok(nodes)
    }

    /// The pod of a whole or partial name.
    async fn pod(&self, asked: &str) -> Result<Pod, ClusterError> {
        let (namespace, name) = asked.split_once('/').unwrap_or((self.namespace(), asked));
        let pods = self.list(namespace, &ListParams::default()).await?;
        let known: Vec<Known> = pods.iter().map(|pod| (namespace.to_owned(), pod.name_any())).collect();
        let place = format!("in namespace {namespace}");
        let found = names::complete(name, &known, &place).map_err(ClusterError::Unknown)?;
        let gone = || ClusterError::Unknown(format!("there is no pod {asked:?} {place}"));
        pods.into_iter().find(|pod| pod.name_any() == found.name).ok_or_else(gone)
    }

    async fn list(&self, namespace: &str, params: &ListParams) -> Result<Vec<Pod>, ClusterError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let what = format!("list pods in namespace {namespace}");
        patiently(&what, pods.list(params)).await.map(|list| list.items)
    }

    /// The running daemons: that of a node, or all.
    async fn daemons(&self, node: Option<&str>) -> Result<Vec<Pod>, ClusterError> {
        let ClusterOptions { daemon_namespace, daemon_selector, .. } = &self.options;
        let mut params = ListParams::default().labels(daemon_selector);
        if let Some(node) = node {
            params = params.fields(&format!("spec.nodeName={node}"));
        }
        let mut daemons = self.list(daemon_namespace, &params).await?;
        daemons.retain(runs);
        let none = |node: Option<&str>| match node {
            Some(node) => ClusterError::NoDaemon {
                node: node.to_owned(),
                selector: daemon_selector.clone(),
                namespace: daemon_namespace.clone(),
            },
            None => ClusterError::NoDaemons {
                selector: daemon_selector.clone(),
                namespace: daemon_namespace.clone(),
            },
        };
        if daemons.is_empty() { Err(none(node)) } else { Ok(daemons) }
    }

    /// A connection to the daemon on a node, by port-forward.
    pub(super) async fn dial(&self, node: &str) -> Result<DuplexStream, ClusterError> {
        let daemons = self.daemons(Some(node)).await?;
        let ClusterOptions { daemon_namespace, daemon_port, .. } = &self.options;
        let name = daemons.first().map(ResourceExt::name_any).unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), daemon_namespace);
        let what = format!("forward a port to pod {daemon_namespace}/{name}");
        let mut forward = patiently(&what, pods.portforward(&name, &[*daemon_port])).await?;
        forward.take_stream(*daemon_port).ok_or_else(|| ClusterError::Api {
            what,
            cause: "it opened no such port".to_owned(),
            remedy: "try again",
        })
    }
}

fn node(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone().filter(|node| !node.is_empty())
}

/// Whether a daemon can be asked: one that is being replaced is still there for a while.
fn runs(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && phase == Some("Running")
}

async fn patiently<T>(
    what: &str,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ClusterError> {
    let failed = |cause, remedy| ClusterError::Api { what: what.to_owned(), cause, remedy };
    let slow = || format!("nothing came within {} s", PATIENCE.as_secs());
    let called =
        timeout(PATIENCE, call).await.map_err(|_| failed(slow(), "can the API server be reached?"))?;
    called.map_err(|error| {
        let (cause, remedy) = match &error {
            kube::Error::Api(status) if status.code == 403 || status.code == 401 => {
                (status.message.clone(), "docs/api.md has the rights that this takes")
            }
            kube::Error::Api(status) => (status.message.clone(), "see the API server's answer"),
            kube::Error::UpgradeConnection(_) => (
                error.to_string(),
                "docs/api.md has the rights that this takes, and what a proxy must let through",
            ),
            _ => (chain(&error), "can the API server be reached?"),
        };
        failed(cause, remedy)
    })
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
