//! The API, and the kubelet's directories in its place while it is away.
//!
//! While the API tells, it alone counts. When it has been away for a while, pods that are new in the kubelet's
//! directories are added to those it told of last; and one that was in the directories and is there no more is
//! gone. The directories tell no labels and no annotations: a new pod is judged by its namespace and its
//! containers, and not watched where `--select` asks for labels.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::{Duration, Instant},
};

use tracing::warn;

use super::{
    Pod,
    api::{
        Api,
        store::{Link, View},
    },
    kubelet,
    selection::Selection,
    source::{Place, Reading, Source},
};

/// How long the API has to be away. A server that is started anew is back before; until then a pod that opted
/// out should not be taken in because nobody could tell.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The API with its stand-in.
#[derive(Debug)]
pub struct Fallback {
    api: Api,
    directory: PathBuf,
    patience: Duration,
    absence: Absence,
}

/// What is remembered while the API is away.
#[derive(Debug, Default, PartialEq, Eq)]
struct Absence {
    /// Pods that were in the directories.
    seen: BTreeSet<String>,
    /// What was told last with the directories' help.
    last: Option<Vec<Pod>>,
    /// Whether somebody was told that new pods cannot be judged by their labels.
    told: bool,
}

impl Fallback {
    /// With the kubelet's directories at `directory`.
    #[must_use]
    pub fn new(api: Api, directory: PathBuf, patience: Duration) -> Self {
        Self { api, directory, patience, absence: Absence::default() }
    }
}

impl Source for Fallback {
    fn read(&mut self, now: Instant) -> Reading {
        let view = self.api.view();
        let mut places: Vec<_> = view.place().into_iter().collect();
        let since = match &view.link {
            Link::Up => None,
            Link::New { since } | Link::Away { since, .. } => Some(*since),
        };
        if since.is_none_or(|since| now.duration_since(since) < self.patience) {
            self.absence = Absence::default();
            return Reading { pods: view.pods.map(|pods| pods.into_values().collect()), places };
        }
        match kubelet::pods(&self.directory) {
            Ok(found) => {
                places.push(Place { name: kubelet::NAME, fault: None });
                let pods = merge(&view, found, self.api.selection(), &mut self.absence);
                self.absence.last = Some(pods.clone());
                Reading { pods: Some(pods), places }
            }
            Err(error) => {
                places.push(Place { name: kubelet::NAME, fault: Some(error.to_string()) });
                let told = view.pods.map(|pods| pods.into_values().collect());
                Reading { pods: self.absence.last.clone().or(told), places }
            }
        }
    }
}

/// The pods the API told of last, and what the directories say since.
fn merge(view: &View, found: Vec<Pod>, selection: &Selection, absence: &mut Absence) -> Vec<Pod> {
    let mut found: BTreeMap<_, _> = found.into_iter().map(|pod| (pod.uid.clone(), pod)).collect();
    let mut pods = Vec::new();
    for (uid, mut pod) in view.pods.iter().flatten().map(|(uid, pod)| (uid, pod.clone())) {
        match found.remove(uid) {
            Some(now) => {
                renew_ids(&mut pod, &now);
                absence.seen.insert(uid.clone());
            }
            // Its directory was there, and the kubelet has removed it since.
            None if absence.seen.contains(uid) && !view.tells(&pod.namespace) => continue,
            None => {}
        }
        pods.push(pod);
    }
    for (uid, pod) in found {
        let names = pod.containers.iter().map(|container| container.name.as_str());
        let known = view.refused.contains(&uid) || view.tells(&pod.namespace);
        if known || !selection.has_namespace(&pod.namespace) || !selection.has_container(names) {
            continue;
        }
        if selection.labels.selects_all() {
            pods.push(pod);
        } else if !absence.told {
            absence.told = true;
            warn!(
                pod = pod.name,
                namespace = pod.namespace,
                "not watched, nor other new pods, until the API answers: --select asks for labels, which the \
                 kubelet's directories do not tell"
            );
        }
    }
    pods
}

/// Containers that were started anew have other ids.
fn renew_ids(pod: &mut Pod, now: &Pod) {
    for container in &mut pod.containers {
        let newer = now.containers.iter().find(|other| other.name == container.name);
        if let Some(id) = newer.and_then(|newer| newer.id.clone()) {
            container.id = Some(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::{
        Container,
        api::{
            object::Object,
            store::{Entries, Store},
        },
        wake::Sleeper,
    };

    fn id(digit: &str) -> String {
        digit.repeat(64)
    }

    fn found(namespace: &str, name: &str, container: &str, digit: &str) -> Pod {
        Pod {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: format!("u-{name}"),
            containers: vec![Container { name: container.to_owned(), id: Some(id(digit)), cgroup: None }],
            ..Pod::default()
        }
    }

    /// Exercises two namespaces of which the API tells one, so that its word stands there and the directories'
    /// in the other; and a container that was started anew.
    #[test]
    fn merged() {
        let now = Instant::now();
        let selection = Selection {
            container: Some("hc".to_owned()),
            namespaces: ["edge".to_owned(), "lb".to_owned()].into(),
            ..Selection::default()
        };
        let store = Store::new(selection.clone(), Sleeper::new().unwrap().waker(), now);
        for namespace in ["edge", "lb"] {
            let text = format!(
                r#"{{"metadata":{{"namespace":"{namespace}","name":"{namespace}-1","uid":"u-{namespace}-1"}},
                    "spec":{{"containers":[{{"name":"hc"}}]}},
                    "status":{{"containerStatuses":[{{"name":"hc","containerID":"containerd://{}"}}]}}}}"#,
                id("1")
            );
            let mut list = Entries::new();
            store.gather(&mut list, &serde_json::from_str::<Object>(&text).unwrap());
            store.replace(&Some(namespace.to_owned()), list);
        }
        store.fail(&Some("lb".to_owned()), "away".to_owned(), now);

        let view = store.view();
        let mut absence = Absence::default();
        let mut names = |found: Vec<Pod>| {
            let pods = merge(&view, found, &selection, &mut absence);
            let ids = pods.iter().map(|pod| pod.containers[0].id.as_deref().unwrap_or_default());
            pods.iter().zip(ids).map(|(pod, id)| format!("{} {}", pod.name, &id[..1])).collect::<Vec<_>>()
        };
        let both = vec![
            found("edge", "edge-1", "hc", "1"),
            found("lb", "lb-1", "hc", "2"),
            // The API tells of `edge`, and nothing of this one: it has just been deleted.
            found("edge", "edge-2", "hc", "1"),
            found("lb", "lb-2", "hc", "1"),
            found("lb", "lb-3", "app", "1"),
            found("default", "other", "hc", "1"),
        ];
        assert_eq!(names(both), ["edge-1 1", "lb-1 2", "lb-2 1"]);
        // Both directories are gone: the API's word stands where it tells.
        assert_eq!(names(vec![]), ["edge-1 1"]);
    }
}
