//! From `--pods` to the source that it means on this machine.

use std::time::Instant;

use tokio::runtime::Handle;
use tracing::info;

use super::{
    api::{
        Api,
        config::{Access, ConfigError, Surroundings},
    },
    fallback::{Fallback, PATIENCE},
    selection::Selection,
    source::{Choice, KUBELET_LOGS, Kubelet, Source, Static},
    wake::Waker,
};

/// Why a source cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Api(#[from] ConfigError),
    /// What the source itself says of its first reading.
    #[error("{0}")]
    Unreadable(String),
    #[error(
        "--select needs the Kubernetes API: the kubelet's directories do not tell labels; select by --container and \
         --namespace, or use --pods api"
    )]
    NoLabels,
}

/// What a source is opened with.
#[derive(Clone, Debug)]
pub struct Order {
    pub choice: Choice,
    pub selection: Selection,
    pub surroundings: Surroundings,
}

/// What a choice means here.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Plan {
    Api { access: Access, node: String },
    ApiWithFallback { access: Access, node: String },
    Alone(Choice),
}

impl Order {
    /// What is to be opened; nothing is touched.
    fn plan(&self) -> Result<Plan, OpenError> {
        let plan = match (&self.choice, self.surroundings.access()) {
            (Choice::Auto, Some(access)) => Plan::ApiWithFallback { access, node: self.surroundings.node()? },
            (Choice::Auto, None) => Plan::Alone(Choice::Kubelet { directory: KUBELET_LOGS.into() }),
            (Choice::Api, Some(access)) => Plan::Api { access, node: self.surroundings.node()? },
            (Choice::Api, None) => return Err(ConfigError::NoAccess.into()),
            (alone, _) => Plan::Alone(alone.clone()),
        };
        let kubelet_alone = matches!(plan, Plan::Alone(Choice::Kubelet { .. }));
        if kubelet_alone && !self.selection.labels.selects_all() {
            return Err(OpenError::NoLabels);
        }
        Ok(plan)
    }

    /// Opens the source. The API is asked by tasks on `runtime`, which wake by `waker`; whether it answers shows
    /// in what the source tells. Directories and files are read once, so that wrong ones are told at the start.
    pub fn open(self, runtime: &Handle, waker: Waker) -> Result<Box<dyn Source>, OpenError> {
        let plan = self.plan()?;
        match plan {
            Plan::Api { access, node } => {
                info!(node, "pods come from the Kubernetes API");
                Ok(Box::new(runtime.block_on(Api::start(&access, &node, self.selection, waker))?))
            }
            Plan::ApiWithFallback { access, node } => {
                info!(
                    node,
                    "pods come from the Kubernetes API, and while it is away from the kubelet's directories"
                );
                let api = runtime.block_on(Api::start(&access, &node, self.selection, waker))?;
                Ok(Box::new(Fallback::new(api, KUBELET_LOGS.into(), PATIENCE)))
            }
            Plan::Alone(Choice::Static { file }) => readable(Static::new(file)),
            Plan::Alone(Choice::Kubelet { directory }) => {
                readable(Kubelet { directory, selection: self.selection })
            }
            Plan::Alone(Choice::Auto | Choice::Api) => Err(ConfigError::NoAccess.into()),
        }
    }
}

/// A source whose first reading succeeds.
fn readable(mut source: impl Source + 'static) -> Result<Box<dyn Source>, OpenError> {
    let fault = source.read(Instant::now()).places.into_iter().find_map(|place| place.fault);
    match fault {
        Some(fault) => Err(OpenError::Unreadable(fault)),
        None => Ok(Box::new(source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(
        choice: &str,
        kubeconfig: Option<&str>,
        node: Option<&str>,
        labels: &str,
    ) -> Result<Plan, String> {
        let surroundings = Surroundings {
            kubeconfig: kubeconfig.map(str::to_owned),
            node_name: node.map(str::to_owned),
            in_cluster: false,
        };
        let selection = Selection { labels: labels.parse().unwrap(), ..Selection::default() };
        let order = Order { choice: choice.parse().unwrap(), selection, surroundings };
        order.plan().map_err(|error| error.to_string())
    }

    /// Exercises each choice with and without a way to the API, so that `auto` picks what is there.
    #[test]
    fn choices() {
        let access = Access::Kubeconfig("/k".to_owned());
        let node = || "n".to_owned();
        let kubelet = |directory: &str| Plan::Alone(Choice::Kubelet { directory: directory.into() });
        let file = Plan::Alone(Choice::Static { file: "/f".into() });
        let with = Plan::ApiWithFallback { access: access.clone(), node: node() };
        assert_eq!(plan("auto", Some("/k"), Some("n"), "a=b"), Ok(with));
        assert_eq!(plan("auto", None, Some("n"), ""), Ok(kubelet(KUBELET_LOGS)));
        assert_eq!(plan("api", Some("/k"), Some("n"), "a=b"), Ok(Plan::Api { access, node: node() }));
        assert_eq!(plan("kubelet:/x", Some("/k"), None, ""), Ok(kubelet("/x")));
        assert_eq!(plan("static:/f", Some("/k"), None, "a=b"), Ok(file));
    }

    /// Exercises what is missing, so that each message names the option that helps.
    #[test]
    fn what_is_missing() {
        for (choice, kubeconfig, node, labels, option) in [
            ("api", None, Some("n"), "", "--kubeconfig"),
            ("api", Some("/k"), None, "", "--node-name"),
            ("auto", Some("/k"), None, "", "--node-name"),
            ("auto", None, None, "a=b", "--select"),
            ("kubelet", None, None, "a=b", "--select"),
        ] {
            let message = plan(choice, kubeconfig, node, labels).unwrap_err();
            assert!(message.contains(option), "{choice}: {message}");
        }
    }

    /// Exercises a directory and a file that are not there, so that the daemon does not start without them.
    #[test]
    fn unreadable() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        for choice in ["kubelet:/nonexistent/pods", "static:/nonexistent/pods.toml"] {
            let order = Order {
                choice: choice.parse().unwrap(),
                selection: Selection::default(),
                surroundings: Surroundings::default(),
            };
            let waker = crate::pods::wake::Sleeper::new().unwrap().waker();
            let message = order.open(runtime.handle(), waker).err().unwrap().to_string();
            assert!(message.contains("/nonexistent/pods"), "{message}");
        }
    }
}
