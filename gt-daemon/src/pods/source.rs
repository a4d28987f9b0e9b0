//! One interface for all places that pods are read from, and the words of `--pods`.

use std::{path::PathBuf, str::FromStr, time::Instant};

use super::{
    Pod, kubelet,
    selection::Selection,
    static_file::{self, StaticFileError},
};

/// Something that tells which pods to watch on this node.
pub trait Source: Send {
    /// What it tells now; does not wait for others.
    fn read(&mut self, now: Instant) -> Reading;
}

/// What a [`Source`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The pods there are; `None` when that is not known, and what was known before stays.
    pub pods: Option<Vec<Pod>>,
    /// The places that were asked, and how each fares. One that is not asked now is not among them.
    pub places: Vec<Place>,
}

/// A place that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its name in metrics and logs.
    pub name: &'static str,
    /// What is wrong with it.
    pub fault: Option<String>,
}

impl Reading {
    /// The answer of a source that is one place.
    pub fn of(name: &'static str, pods: Result<Vec<Pod>, impl std::error::Error>) -> Self {
        match pods {
            Ok(pods) => Self { pods: Some(pods), places: vec![Place { name, fault: None }] },
            Err(error) => Self { pods: None, places: vec![Place { name, fault: Some(error.to_string()) }] },
        }
    }
}

/// Where pods are read from, as the command line says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The API where there is a way to it, with the kubelet's directories while it is away; else those alone.
    Auto,
    /// The API alone.
    Api,
    /// The kubelet's log directories.
    Kubelet { directory: PathBuf },
    /// A file written by a person, for machines without a kubelet.
    Static { file: PathBuf },
}

/// Where every kubelet keeps the logs of its pods.
pub const KUBELET_LOGS: &str = "/var/log/pods";

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, argument) = match text.split_once(':') {
            Some((kind, argument)) => (kind, Some(argument)),
            None => (text, None),
        };
        match (kind, argument) {
            (_, Some("")) => Err(format!("{text}: a path must follow the colon")),
            ("auto", None) => Ok(Self::Auto),
            ("api", None) => Ok(Self::Api),
            ("kubelet", directory) => {
                Ok(Self::Kubelet { directory: directory.unwrap_or(KUBELET_LOGS).into() })
            }
            ("static", Some(file)) => Ok(Self::Static { file: file.into() }),
            ("static", None) => Err("static needs a file: static:FILE".to_owned()),
            _ => Err(format!(
                "unknown source {text:?}: use auto, api, kubelet, kubelet:DIRECTORY or static:FILE"
            )),
        }
    }
}

/// The kubelet's log directories as the only source.
#[derive(Clone, Debug)]
pub struct Kubelet {
    pub directory: PathBuf,
    pub selection: Selection,
}

impl Source for Kubelet {
    fn read(&mut self, _now: Instant) -> Reading {
        let pods = kubelet::pods(&self.directory).map(|mut pods| {
            pods.retain(|pod| {
                let names = pod.containers.iter().map(|container| container.name.as_str());
                self.selection.has_namespace(&pod.namespace) && self.selection.has_container(names)
            });
            pods
        });
        Reading::of(kubelet::NAME, pods)
    }
}

/// A file as the source, which selects by itself.
#[derive(Clone, Debug)]
pub struct Static {
    file: PathBuf,
    /// What it said last time, and meant: to parse a file of hundreds of pods takes much longer than to read it.
    last: Option<(String, Vec<Pod>)>,
}

impl Static {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(file: PathBuf) -> Self {
        Self { file, last: None }
    }

    fn pods(&mut self) -> Result<Vec<Pod>, StaticFileError> {
        let text = static_file::read(&self.file)?;
        if let Some((_, pods)) = self.last.as_ref().filter(|(last, _)| *last == text) {
            return Ok(pods.clone());
        }
        let pods = static_file::parse(&self.file, &text)?;
        self.last = Some((text, pods.clone()));
        Ok(pods)
    }
}

impl Source for Static {
    fn read(&mut self, _now: Instant) -> Reading {
        Reading::of(static_file::NAME, self.pods())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises a file that stays, changes, is damaged and comes back, so that each reading is what it says then.
    #[test]
    fn a_file_that_changes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut source = Static::new(file.path().to_owned());
        let mut names = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            let pods = source.read(Instant::now()).pods?;
            Some(pods.into_iter().map(|pod| pod.name).collect::<Vec<_>>())
        };
        let pod = |name: &str| format!("[[pod]]\nnamespace = \"n\"\nname = \"{name}\"\nnetns = \"/n\"\n");
        let (one, another) = (pod("a"), pod("b"));
        for _ in 0..2 {
            assert_eq!(names(&one), Some(vec!["a".to_owned()]));
        }
        assert_eq!(names(&another), Some(vec!["b".to_owned()]));
        assert_eq!(names("[[pod]"), None);
        assert_eq!(names(&another), Some(vec!["b".to_owned()]));
        assert_eq!(names(""), Some(vec![]));
    }

    /// Exercises the flag's words, so that a wrong one is answered with the right ones.
    #[test]
    fn words() {
        let kubelet = |directory: &str| Ok(Choice::Kubelet { directory: directory.into() });
        assert_eq!("auto".parse(), Ok(Choice::Auto));
        assert_eq!("api".parse(), Ok(Choice::Api));
        assert_eq!("kubelet".parse(), kubelet(KUBELET_LOGS));
        assert_eq!("kubelet:/x/y".parse(), kubelet("/x/y"));
        assert_eq!("static:/pods.toml".parse(), Ok(Choice::Static { file: "/pods.toml".into() }));
        for wrong in ["static", "static:", "kubelet:", "auto:x", "api:x", "", "Static:x"] {
            assert!(wrong.parse::<Choice>().is_err(), "{wrong}");
        }
    }

    /// Exercises the kubelet's directories by namespace and container, and their absence.
    #[test]
    fn kubelet_selection() {
        let dir = tempfile::tempdir().unwrap();
        for pod in ["edge_a_u1/hc", "edge_b_u2/app", "lb_c_u3/hc"] {
            std::fs::create_dir_all(dir.path().join(pod)).unwrap();
        }
        let names = |selection| {
            let reading = Kubelet { directory: dir.path().to_owned(), selection }.read(Instant::now());
            reading.pods.unwrap().into_iter().map(|pod| pod.name).collect::<Vec<_>>()
        };
        let hc = Selection { container: Some("hc".to_owned()), ..Selection::default() };
        let edge = Selection { namespaces: ["edge".to_owned()].into(), ..Selection::default() };
        assert_eq!(names(Selection::default()), ["a", "b", "c"]);
        assert_eq!(names(hc), ["a", "c"]);
        assert_eq!(names(edge), ["a", "b"]);
        let mut missing = Kubelet { directory: dir.path().join("x"), selection: Selection::default() };
        let reading = missing.read(Instant::now());
        assert!(reading.pods.is_none() && reading.places[0].fault.is_some());
    }
}
