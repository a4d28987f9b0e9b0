//! Which pods are watched: decided from what is known of a pod, and nothing else.
//!
//! `--namespace` and `--select` say what gt asks the API for at all; a pod outside of them cannot ask to be
//! watched. Among the others a pod's own word (`gt.dev/watch`) goes before `--container`.

use std::collections::{BTreeMap, BTreeSet};

use super::label_selector::LabelSelector;

/// What the command line selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only pods with a container of this name.
    pub container: Option<String>,
    /// Only pods of these namespaces; empty: of all.
    pub namespaces: BTreeSet<String>,
    /// Only pods with such labels.
    pub labels: LabelSelector,
}

/// What is known of a pod by the API.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub namespace: &'a str,
    pub labels: &'a BTreeMap<String, String>,
    /// Its containers and those init containers that stay.
    pub containers: &'a [&'a str],
    /// Whether all of its containers have ended for good.
    pub finished: bool,
    /// Its annotation `gt.dev/watch`.
    pub stated: Option<bool>,
}

/// Why a pod is not watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Namespace,
    Labels,
    Finished,
    Stated,
    Container,
}

impl Refusal {
    /// In words, for the log.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Namespace => "its namespace is not among those of --namespace",
            Self::Labels => "its labels are not those of --select",
            Self::Finished => "it has finished",
            Self::Stated => "its annotation gt.dev/watch says false",
            Self::Container => "it has no container of the name given by --container",
        }
    }
}

impl Selection {
    /// Whether a pod is watched; else why not.
    pub fn decide(&self, pod: Candidate<'_>) -> Result<(), Refusal> {
        if !self.has_namespace(pod.namespace) {
            return Err(Refusal::Namespace);
        }
        if !self.labels.matches(pod.labels) {
            return Err(Refusal::Labels);
        }
        // A finished pod holds no sockets, whatever it says.
        if pod.finished {
            return Err(Refusal::Finished);
        }
        match pod.stated {
            Some(true) => Ok(()),
            Some(false) => Err(Refusal::Stated),
            None if self.has_container(pod.containers.iter().copied()) => Ok(()),
            None => Err(Refusal::Container),
        }
    }

    /// Whether pods of this namespace are selected.
    #[must_use]
    pub fn has_namespace(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(namespace)
    }

    /// Whether a pod with these containers is selected.
    #[must_use]
    pub fn has_container<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> bool {
        self.container.as_deref().is_none_or(|wanted| names.any(|name| name == wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(container: &str, namespaces: &[&str], labels: &str) -> Selection {
        Selection {
            container: (!container.is_empty()).then(|| container.to_owned()),
            namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
            labels: labels.parse().unwrap(),
        }
    }

    /// Exercises each criterion alone and against the others, so that their order is the documented one.
    #[test]
    fn decisions() {
        let plain = selection("hc", &[], "");
        let all = selection("", &[], "");
        let spaces = selection("hc", &["edge", "lb"], "");
        let labelled = selection("hc", &[], "app=igw");
        let with_hc: &[&str] = &["istio-proxy", "hc"];
        let without: &[&str] = &["app"];
        for (name, selection, namespace, label, containers, finished, stated, expected) in [
            ("has hc", &plain, "edge", "igw", with_hc, false, None, Ok(())),
            ("no hc", &plain, "edge", "igw", without, false, None, Err(Refusal::Container)),
            ("no container at all", &plain, "edge", "igw", &[], false, None, Err(Refusal::Container)),
            ("all", &all, "edge", "igw", without, false, None, Ok(())),
            ("opted in", &plain, "edge", "igw", without, false, Some(true), Ok(())),
            ("opted out", &plain, "edge", "igw", with_hc, false, Some(false), Err(Refusal::Stated)),
            ("opted out of all", &all, "edge", "igw", with_hc, false, Some(false), Err(Refusal::Stated)),
            ("finished", &plain, "edge", "igw", with_hc, true, None, Err(Refusal::Finished)),
            ("finished, opted in", &plain, "edge", "igw", with_hc, true, Some(true), Err(Refusal::Finished)),
            ("in a namespace", &spaces, "lb", "igw", with_hc, false, None, Ok(())),
            ("outside", &spaces, "default", "igw", with_hc, false, None, Err(Refusal::Namespace)),
            (
                "outside, opted in",
                &spaces,
                "default",
                "igw",
                with_hc,
                false,
                Some(true),
                Err(Refusal::Namespace),
            ),
            ("in a namespace, no hc", &spaces, "lb", "igw", without, false, None, Err(Refusal::Container)),
            ("labels", &labelled, "edge", "igw", with_hc, false, None, Ok(())),
            ("labels, no hc", &labelled, "edge", "igw", without, false, None, Err(Refusal::Container)),
            ("labels, no hc, opted in", &labelled, "edge", "igw", without, false, Some(true), Ok(())),
            ("other labels", &labelled, "edge", "web", with_hc, false, None, Err(Refusal::Labels)),
            (
                "other labels, opted in",
                &labelled,
                "edge",
                "web",
                with_hc,
                false,
                Some(true),
                Err(Refusal::Labels),
            ),
        ] {
            let labels = BTreeMap::from([("app".to_owned(), label.to_owned())]);
            let candidate = Candidate { namespace, labels: &labels, containers, finished, stated };
            assert_eq!(selection.decide(candidate), expected, "{name}");
        }
    }
}
