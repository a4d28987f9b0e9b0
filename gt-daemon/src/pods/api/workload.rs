//! What made a pod.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::pods::Workload;

/// Labels by which controllers of ReplicaSets mark the pods of one of them, and what these controllers are.
const HASHES: [(&str, &str); 2] =
    [("pod-template-hash", "Deployment"), ("rollouts-pod-template-hash", "Rollout")];

/// The workload of a pod: its controlling owner.
///
/// A ReplicaSet of a Deployment is named `<deployment>-<hash>`, and its pods carry the hash as a label. So
/// their workload is the Deployment, without a look at the ReplicaSet, which gt has no right to. Where the
/// label is not there, or the name does not end so, the ReplicaSet stands.
#[must_use]
pub fn of(owners: &[OwnerReference], labels: &BTreeMap<String, String>) -> Option<Workload> {
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    if owner.kind == "ReplicaSet" {
        for (label, kind) in HASHES {
            let name = labels
                .get(label)
                .and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'))
                .filter(|name| !name.is_empty());
            if let Some(name) = name {
                return Some(Workload { kind: kind.to_owned(), name: name.to_owned() });
            }
        }
    }
    Some(Workload { kind: owner.kind.clone(), name: owner.name.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises owners with and without what leads on to the Deployment.
    #[test]
    fn owners() {
        for (kind, name, controls, labels, expected) in [
            ("ReplicaSet", "igw-6d8f9c7b5", true, "pod-template-hash=6d8f9c7b5", Some(("Deployment", "igw"))),
            ("ReplicaSet", "igw-6d8f9c7b5", true, "", Some(("ReplicaSet", "igw-6d8f9c7b5"))),
            ("ReplicaSet", "by-hand", true, "pod-template-hash=6d8f9c7b5", Some(("ReplicaSet", "by-hand"))),
            ("ReplicaSet", "-x", true, "pod-template-hash=x", Some(("ReplicaSet", "-x"))),
            ("ReplicaSet", "web-abc", true, "rollouts-pod-template-hash=abc", Some(("Rollout", "web"))),
            ("StatefulSet", "db-x", true, "pod-template-hash=x", Some(("StatefulSet", "db-x"))),
            ("Node", "worker-1", true, "", Some(("Node", "worker-1"))),
            ("ReplicaSet", "igw-1", false, "pod-template-hash=1", None),
        ] {
            let owner = OwnerReference {
                kind: kind.to_owned(),
                name: name.to_owned(),
                controller: Some(controls),
                ..OwnerReference::default()
            };
            let labels = labels
                .split_once('=')
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into_iter()
                .collect();
            let found = of(&[OwnerReference::default(), owner], &labels);
            let found = found.as_ref().map(|workload| (workload.kind.as_str(), workload.name.as_str()));
            assert_eq!(found, expected, "{kind} {name}");
        }
        assert_eq!(of(&[], &BTreeMap::new()), None);
    }
}
