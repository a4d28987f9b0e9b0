//! How the API is reached: by the pod's service account or by a kubeconfig; and which node this is.

use std::path::{Path, PathBuf};

use kube::config::{Config, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::pods::label_selector::is_subdomain;

/// Where a kubelet puts a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Why the API cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "no access to the Kubernetes API: there is neither a service account of a pod ({SERVICE_ACCOUNT}/token) nor a \
         kubeconfig; give --kubeconfig FILE (or KUBECONFIG), or choose --pods kubelet"
    )]
    NoAccess,
    #[error(
        "it is not known which node this is; give --node-name, or NODE_NAME from the downward API (fieldRef \
         spec.nodeName), or choose --pods kubelet"
    )]
    NoNode,
    #[error("{0:?} is no name of a node; give --node-name (or NODE_NAME) as `kubectl get nodes` shows it")]
    BadNode(String),
    #[error(
        "the service account's files in {SERVICE_ACCOUNT} cannot be used: {0}; let the pod mount its token \
         (automountServiceAccountToken), or give --kubeconfig"
    )]
    InCluster(#[from] InClusterError),
    #[error(
        "the kubeconfig {file} cannot be used: {cause}; check the file given by --kubeconfig (or KUBECONFIG)"
    )]
    Kubeconfig { file: String, cause: Box<KubeconfigError> },
    #[error(
        "no client can be made for {server}: {cause}; check the certificates and credentials of the kubeconfig; \
         proxies are not supported"
    )]
    Client { server: String, cause: Box<kube::Error> },
}

/// A way to the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// The service account of the pod that gt runs in.
    InCluster,
    /// One file, or several with colons between them, as in KUBECONFIG.
    Kubeconfig(String),
}

/// What is known of the surroundings.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// `--kubeconfig` or KUBECONFIG.
    pub kubeconfig: Option<String>,
    /// `--node-name` or NODE_NAME.
    pub node_name: Option<String>,
    /// Whether a kubelet has told this process where the API is, and given it a token.
    pub in_cluster: bool,
}

impl Surroundings {
    /// Looks for a service account; the rest is the command line's.
    #[must_use]
    pub fn look(kubeconfig: Option<String>, node_name: Option<String>) -> Self {
        let told = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let in_cluster = told && Path::new(SERVICE_ACCOUNT).join("token").exists();
        Self { kubeconfig, node_name, in_cluster }
    }

    /// The way to the API, if there is one: what is said goes before what is found.
    #[must_use]
    pub fn access(&self) -> Option<Access> {
        match self.kubeconfig.as_deref() {
            Some(files) if !files.is_empty() => Some(Access::Kubeconfig(files.to_owned())),
            _ if self.in_cluster => Some(Access::InCluster),
            _ => None,
        }
    }

    /// The name of this node.
    pub fn node(&self) -> Result<String, ConfigError> {
        match self.node_name.as_deref() {
            None | Some("") => Err(ConfigError::NoNode),
            // It becomes a part of a selector, where a comma would have a meaning.
            Some(name) if is_subdomain(name) => Ok(name.to_owned()),
            Some(name) => Err(ConfigError::BadNode(name.to_owned())),
        }
    }
}

/// Reads what the access needs; plugins that fetch credentials run later, and each time one expires.
pub async fn load(access: &Access) -> Result<Config, ConfigError> {
    match access {
        Access::InCluster => Ok(Config::incluster()?),
        Access::Kubeconfig(files) => from_files(files, &KubeConfigOptions::default())
            .await
            .map_err(|cause| ConfigError::Kubeconfig { file: files.clone(), cause: Box::new(cause) }),
    }
}

/// Reads one file, or several with colons between them, which complete each other.
pub(crate) async fn from_files(files: &str, choice: &KubeConfigOptions) -> Result<Config, KubeconfigError> {
    let mut merged = Kubeconfig::default();
    for file in std::env::split_paths(files).filter(|file: &PathBuf| !file.as_os_str().is_empty()) {
        merged = merged.merge(Kubeconfig::read_from(file)?)?;
    }
    Config::from_custom_kubeconfig(merged, choice).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises what is found and what is said, so that a word on the command line is never passed over.
    #[test]
    fn ways() {
        let access = |kubeconfig: Option<&str>, in_cluster| {
            Surroundings { kubeconfig: kubeconfig.map(str::to_owned), in_cluster, ..Surroundings::default() }
                .access()
        };
        assert_eq!(access(None, false), None);
        assert_eq!(access(Some(""), false), None);
        assert_eq!(access(None, true), Some(Access::InCluster));
        assert_eq!(access(Some(""), true), Some(Access::InCluster));
        assert_eq!(access(Some("/x"), true), Some(Access::Kubeconfig("/x".to_owned())));
    }

    /// Exercises names of nodes, so that a missing or impossible one is told with its remedy.
    #[test]
    fn nodes() {
        let node = |name: Option<&str>| {
            let node_name = name.map(str::to_owned);
            Surroundings { node_name, ..Surroundings::default() }.node().map_err(|error| error.to_string())
        };
        assert_eq!(node(Some("worker-1.example.com")), Ok("worker-1.example.com".to_owned()));
        for missing in [None, Some("")] {
            assert!(node(missing).unwrap_err().contains("NODE_NAME"));
        }
        for wrong in ["a,b=c", "Worker", "a b", "-a"] {
            let message = node(Some(wrong)).unwrap_err();
            assert!(message.contains(wrong) && message.contains("--node-name"), "{message}");
        }
    }

    /// Exercises kubeconfigs that cannot be used, so that each message names the file.
    #[tokio::test]
    async fn faults() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config");
        for (content, expected) in [
            (None, "No such file"),
            (Some("{{"), "parse"),
            (Some("apiVersion: v1\nkind: Config\n"), "current context"),
            (Some("current-context: a\ncontexts: []\n"), "context"),
        ] {
            if let Some(content) = content {
                std::fs::write(&file, content).unwrap();
            }
            let path = file.display().to_string();
            let message = load(&Access::Kubeconfig(path.clone())).await.unwrap_err().to_string();
            assert!(message.contains(&path) && message.contains(expected), "{message}");
        }
    }
}
