//! Where pods are read from (`--pods`).

use std::{path::PathBuf, str::FromStr};

use super::{Pod, kubelet, static_file};

/// A place that tells which pods run on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The kubelet's log directories.
    Kubelet { directory: PathBuf },
    /// A file written by a person, for machines without a kubelet.
    Static { file: PathBuf },
}

/// Where every kubelet keeps the logs of its pods.
pub const KUBELET_LOGS: &str = "/var/log/pods";

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, argument) = match text.split_once(':') {
            Some((kind, argument)) => (kind, Some(argument)),
            None => (text, None),
        };
        match (kind, argument) {
            (_, Some("")) => Err(format!("{text}: a path must follow the colon")),
            ("auto", None) => Ok(Self::Kubelet { directory: KUBELET_LOGS.into() }),
            ("kubelet", directory) => {
                Ok(Self::Kubelet { directory: directory.unwrap_or(KUBELET_LOGS).into() })
            }
            ("static", Some(file)) => Ok(Self::Static { file: file.into() }),
            ("static", None) => Err("static needs a file: static:FILE".to_owned()),
            _ => Err(format!("unknown source {text:?}: use auto, kubelet, kubelet:DIRECTORY or static:FILE")),
        }
    }
}

/// Why a source could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    Kubelet(#[from] kubelet::KubeletError),
    #[error(transparent)]
    Static(#[from] static_file::StaticFileError),
}

impl Source {
    /// The source's name in metrics and logs.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kubelet { .. } => "kubelet",
            Self::Static { .. } => "static",
        }
    }

    /// The pods there are now. `container` selects the pods that have a container of this name; a static
    /// file selects by itself.
    pub fn pods(&self, container: Option<&str>) -> Result<Vec<Pod>, SourceError> {
        match self {
            Self::Kubelet { directory } => {
                let mut pods = kubelet::pods(directory)?;
                if let Some(wanted) = container {
                    pods.retain(|pod| pod.containers.iter().any(|container| container.name == wanted));
                }
                Ok(pods)
            }
            Self::Static { file } => Ok(static_file::pods(file)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises the flag's words, so that a wrong one is answered with the right ones.
    #[test]
    fn words() {
        let kubelet = |directory: &str| Ok(Source::Kubelet { directory: directory.into() });
        assert_eq!("auto".parse(), kubelet(KUBELET_LOGS));
        assert_eq!("kubelet".parse(), kubelet(KUBELET_LOGS));
        assert_eq!("kubelet:/x/y".parse(), kubelet("/x/y"));
        assert_eq!("static:/pods.toml".parse(), Ok(Source::Static { file: "/pods.toml".into() }));
        for wrong in ["static", "static:", "kubelet:", "auto:x", "", "Static:x"] {
            assert!(wrong.parse::<Source>().is_err(), "{wrong}");
        }
    }
}
