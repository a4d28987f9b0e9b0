//! How consoles reach daemons, on their side, and what they show.

use std::{
    env,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};

use super::screen::ScreenOptions;
use crate::{
    api::door,
    client::{Choice, Wanted, cluster::ClusterOptions},
    pods::label_selector::LabelSelector,
};

/// How the daemon is reached: by this node's socket where there is one, else through the API of a cluster.
#[derive(Clone, Debug, Args)]
pub struct ClientOptions {
    /// The socket of a daemon on this node; by default /run/gt/gt.sock where that is there.
    #[arg(long, value_name = "PATH", env = "GT_SOCKET")]
    pub socket: Option<PathBuf>,
    /// The address of a daemon, as kubectl port-forward opens it: http://127.0.0.1:9465.
    #[arg(long, value_name = "URL", env = "GT_URL", conflicts_with = "socket")]
    pub url: Option<String>,
    /// Reach daemons through the API of the cluster of this kubeconfig; by default KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["socket", "url"])]
    pub kubeconfig: Option<String>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["socket", "url"])]
    pub context: Option<String>,
    /// The namespace of pods that are named without one; by default the context's.
    #[arg(long, short, value_name = "NAMESPACE", value_parser = super::namespace)]
    pub namespace: Option<String>,
    /// The namespace of gt-daemon's pods.
    #[arg(long, value_name = "NAMESPACE", default_value = "gt", env = "GT_DAEMON_NAMESPACE",
          value_parser = super::namespace)]
    pub daemon_namespace: String,
    /// The labels of gt-daemon's pods.
    #[arg(
        long,
        value_name = "LABELS",
        default_value = "app.kubernetes.io/name=gt-daemon",
        env = "GT_DAEMON_SELECTOR"
    )]
    pub daemon_selector: LabelSelector,
    /// The port that gt-daemon's pods serve on their loopback device.
    #[arg(long, value_name = "PORT", default_value_t = door::PORT, env = "GT_DAEMON_PORT")]
    pub daemon_port: u16,
}

impl ClientOptions {
    /// What is said, and what is found here.
    #[must_use]
    pub fn choice(&self) -> Choice {
        let not_empty = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        Choice {
            socket: self.socket.clone().filter(|path| !path.as_os_str().is_empty()),
            url: not_empty(&self.url),
            by_cluster: self.kubeconfig.is_some() || self.context.is_some(),
            cluster: ClusterOptions {
                kubeconfig: not_empty(&self.kubeconfig),
                context: not_empty(&self.context),
                namespace: not_empty(&self.namespace),
                daemon_namespace: self.daemon_namespace.clone(),
                daemon_selector: self.daemon_selector.to_string(),
                daemon_port: self.daemon_port,
            },
            usual_socket: door::SOCKET.into(),
            has_kubeconfig: has_kubeconfig(),
        }
    }
}

fn has_kubeconfig() -> bool {
    let named = env::var_os("KUBECONFIG").is_some_and(|files| !files.is_empty());
    named || env::var_os("HOME").is_some_and(|home| Path::new(&home).join(".kube/config").exists())
}

/// What `trace` shows.
#[derive(Clone, Debug, Args)]
pub struct TraceOptions {
    /// Show this pod, by its name or a part of it that only one has; may be given several times. Default: all.
    #[arg(long = "pod", short, value_name = "[NS/]NAME")]
    pub pods: Vec<String>,
    /// Show pods with these labels, as for kubectl -l.
    #[arg(long, short = 'l', value_name = "LABELS", default_value = "", hide_default_value = true)]
    pub select: LabelSelector,
    /// How it is shown.
    #[arg(long, short, default_value = "auto")]
    pub output: TraceOutput,
    /// End when the pods are gone, with the verdict on their drains: 0 protected, 2 broken, 3 inconclusive.
    #[arg(long)]
    pub until_gone: bool,
    #[command(flatten)]
    pub screen: ScreenOptions,
    #[command(flatten)]
    pub client: ClientOptions,
}

impl TraceOptions {
    /// Which pods are to be followed.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        let namespace = self.client.namespace.as_deref();
        let named = |pod: &String| match namespace {
            Some(namespace) if !pod.contains('/') => format!("{namespace}/{pod}"),
            _ => pod.clone(),
        };
        Wanted { pods: self.pods.iter().map(named).collect(), labels: self.select.clone() }
    }
}

/// Forms of what `trace` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceOutput {
    /// The live console on a terminal, else lines.
    Auto,
    /// One event a line, in words.
    Lines,
    /// One message a line, as JSON.
    Json,
}

/// What `drains` lists.
#[derive(Clone, Debug, Args)]
pub struct DrainsOptions {
    /// List the records below this directory, without any daemon.
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// How they are listed.
    #[arg(long, short, default_value = "table")]
    pub output: DrainsOutput,
    #[command(flatten)]
    pub client: ClientOptions,
}

/// Forms of a list of drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DrainsOutput {
    Table,
    Json,
}
