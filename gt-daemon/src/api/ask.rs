//! Which pods a stream shows: pure.

use std::{collections::BTreeMap, fmt, str::FromStr};

use crate::pods::label_selector::{LabelSelector, is_subdomain};

/// Names in one question at most.
const MOST: usize = 64;

/// A pod by its name, in a namespace or in any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodName {
    pub namespace: Option<String>,
    pub name: String,
}

impl FromStr for PodName {
    type Err = String;

    /// `NAME` or `NAMESPACE/NAME`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, text),
        };
        if !is_subdomain(name) || namespace.is_some_and(|namespace| !is_subdomain(namespace)) {
            return Err(format!("{text:?} is no name of a pod; write NAME or NAMESPACE/NAME"));
        }
        Ok(Self { namespace: namespace.map(str::to_owned), name: name.to_owned() })
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// The pods that are asked for: those of the names, and of them those with the labels. No name: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    pub pods: Vec<PodName>,
    pub labels: LabelSelector,
}

impl Ask {
    /// Reads `pod` (may be there several times) and `select` from a query; an error for anything else.
    pub fn of_query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, String> {
        let mut ask = Self::default();
        for (key, value) in pairs {
            match key {
                "pod" if ask.pods.len() < MOST => ask.pods.push(value.parse()?),
                "pod" => return Err(format!("more than {MOST} pods are asked for; ask by select=LABELS")),
                "select" => ask.labels = value.parse()?,
                _ => return Err(format!("{key:?} is no parameter of a stream; there are pod and select")),
            }
        }
        Ok(ask)
    }

    /// Its parameters, to be encoded.
    #[must_use]
    pub fn query(&self) -> Vec<(&'static str, String)> {
        let pods = self.pods.iter().map(|pod| ("pod", pod.to_string()));
        let labels = (!self.labels.selects_all()).then(|| ("select", self.labels.to_string()));
        pods.chain(labels).collect()
    }

    /// Whether a pod is among them. One whose labels are not known has none that could be asked for.
    #[must_use]
    pub fn matches(&self, namespace: &str, name: &str, labels: Option<&BTreeMap<String, String>>) -> bool {
        let is_it = |pod: &PodName| {
            pod.name == name && pod.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
        };
        let has_labels =
            || self.labels.selects_all() || labels.is_some_and(|labels| self.labels.matches(labels));
        (self.pods.is_empty() || self.pods.iter().any(is_it)) && has_labels()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises names, labels and both, so that a stream shows what was asked for and nothing else.
    #[test]
    fn who_is_shown() {
        let labels = BTreeMap::from([("app".to_owned(), "igw".to_owned())]);
        let shows = |query: &[(&str, &str)], namespace, name| {
            Ask::of_query(query.iter().copied()).unwrap().matches(namespace, name, Some(&labels))
        };
        assert!(shows(&[], "edge", "igw-1"));
        assert!(shows(&[("pod", "igw-1")], "edge", "igw-1") && !shows(&[("pod", "igw")], "edge", "igw-1"));
        assert!(shows(&[("pod", "a"), ("pod", "edge/igw-1")], "edge", "igw-1"));
        assert!(!shows(&[("pod", "lb/igw-1")], "edge", "igw-1"));
        assert!(shows(&[("select", "app in (igw,x)")], "edge", "a"));
        assert!(!shows(&[("select", "app=x"), ("pod", "a")], "edge", "a"));
        let without = |select| Ask::of_query([("select", select)]).unwrap().matches("edge", "a", None);
        assert!(without("") && !without("!app"));
    }

    /// Exercises what a client sends, so that the daemon reads it again.
    #[test]
    fn there_and_back() {
        let query = [("pod", "edge/igw-1"), ("pod", "b"), ("select", "app in (a,b),!old")];
        let ask = Ask::of_query(query).unwrap();
        let sent = ask.query();
        let pairs = sent.iter().map(|(key, value)| (*key, value.as_str()));
        assert_eq!(Ask::of_query(pairs).unwrap(), ask);
        assert_eq!(Ask::default().query(), []);
    }

    /// Exercises wrong questions, so that each is refused with its cause.
    #[test]
    fn refused() {
        for (key, value, cause) in [
            ("pod", "", "no name"),
            ("pod", "a/b/c", "no name"),
            ("pod", "A", "no name"),
            ("select", "a=(", "label selector"),
            ("pods", "a", "no parameter"),
        ] {
            let error = Ask::of_query([(key, value)]).unwrap_err();
            assert!(error.contains(cause), "{error}");
        }
        assert!(Ask::of_query([("pod", "a"); MOST + 1]).unwrap_err().contains("select"));
    }
}
