//! Every object that kustomize renders, against the types of the Kubernetes API.
//!
//! The types drop fields that they do not know, and make up those that must be there. So an object is read, written
//! again and compared: what differs is a mistake.

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::{ConfigMap, Namespace, Service, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use xtask::deploy::{manifests, operator};

use crate::{Case, KUSTOMIZATIONS, rendered, without_kubectl};

pub fn cases() -> Vec<Case> {
    let skip = without_kubectl();
    vec![
        Case::new("objects::fields_are_known", skip.as_ref(), fields_are_known),
        Case::new("objects::an_unknown_field_is_told", None, an_unknown_field_is_told),
        Case::new("objects::they_fit_together", skip.as_ref(), they_fit_together),
        Case::new("objects::images_are_pinned", skip.as_ref(), images_are_pinned),
    ]
}

/// Where a value and what the types make of it differ; a field that is `null` is not there.
fn differences(given: &Value, taken: &Value, path: &str, found: &mut Vec<String>) {
    match (given, taken) {
        (Value::Object(left), Value::Object(right)) => {
            for (key, value) in left {
                differences(value, right.get(key).unwrap_or(&Value::Null), &format!("{path}.{key}"), found);
            }
            for (key, value) in right.iter().filter(|(key, _)| !left.contains_key(*key)) {
                found.push(format!("{path}.{key}: is not there, and taken for {value}"));
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (number, (left, right)) in left.iter().zip(right).enumerate() {
                differences(left, right, &format!("{path}[{number}]"), found);
            }
        }
        (left, right) if left != right => found.push(format!("{path}: {left} is taken for {right}")),
        _ => {}
    }
}

fn checked<T: DeserializeOwned + Serialize>(object: &Value) -> anyhow::Result<Vec<String>> {
    let name = manifests::name(object);
    let typed: T = serde_json::from_value(object.clone()).with_context(|| name.clone())?;
    let mut found = Vec::new();
    differences(object, &serde_json::to_value(typed)?, &name, &mut found);
    Ok(found)
}

/// What the API's types make another thing of; an object of a kind that is not known here is an error.
pub fn check(object: &Value) -> anyhow::Result<Vec<String>> {
    match object["kind"].as_str().unwrap_or_default() {
        "ClusterRole" => checked::<ClusterRole>(object),
        "ClusterRoleBinding" => checked::<ClusterRoleBinding>(object),
        "ConfigMap" => checked::<ConfigMap>(object),
        "DaemonSet" => checked::<DaemonSet>(object),
        "Deployment" => checked::<Deployment>(object),
        "Namespace" => checked::<Namespace>(object),
        "NetworkPolicy" => checked::<NetworkPolicy>(object),
        "PodDisruptionBudget" => checked::<PodDisruptionBudget>(object),
        "Service" => checked::<Service>(object),
        "ServiceAccount" => checked::<ServiceAccount>(object),
        other => bail!("no type is known here for the kind {other:?}: add it"),
    }
}

/// Exercises each object of each kustomization so that a misspelt, misplaced or missing field is found before a cluster
/// drops it without a word.
fn fields_are_known() -> anyhow::Result<()> {
    for kustomization in KUSTOMIZATIONS {
        let objects = rendered(kustomization)?;
        ensure!(!objects.is_empty(), "{kustomization} renders nothing");
        for object in &objects {
            let version = object["apiVersion"].as_str().unwrap_or_default();
            if version.starts_with(operator::GROUP) {
                continue;
            }
            let found = check(object)?;
            ensure!(found.is_empty(), "{kustomization}: {}", found.join("\n"));
        }
    }
    Ok(())
}

/// Exercises three mistakes so that the comparison is one.
fn an_unknown_field_is_told() -> anyhow::Result<()> {
    let files = manifests::read(&manifests::directory().join("base/daemonset.yaml"))?;
    let good = files.first().context("base/daemonset.yaml is empty")?;
    ensure!(check(good)?.is_empty(), "the file itself is good");
    let container = "/spec/template/spec/containers/0";
    for (path, key, value, word) in [
        ("/spec/template/spec", "hostPid", json!(true), "hostPid: true is taken for null"),
        (container, "readOnlyRootFilesystem", json!(true), "readOnlyRootFilesystem"),
        (container, "name", Value::Null, "name"),
    ] {
        let mut bad = good.clone();
        let fields = bad.pointer_mut(path).and_then(Value::as_object_mut).context("no such path")?;
        fields.insert(key.to_owned(), value);
        let found = check(&bad)?;
        ensure!(found.len() == 1 && found[0].contains(word), "{key}: {found:?}");
    }
    let mut bad = good.clone();
    bad["apiVersion"] = json!("apps/v1beta2");
    ensure!(check(&bad).is_err(), "another version was taken");
    Ok(())
}

/// Exercises what objects say of one another so that no volume, port or label leads nowhere.
fn they_fit_together() -> anyhow::Result<()> {
    for kustomization in KUSTOMIZATIONS {
        let objects = rendered(kustomization)?;
        let workloads: Vec<_> =
            objects.iter().filter(|object| object["spec"]["template"].is_object()).collect();
        for workload in &workloads {
            fits(workload).with_context(|| format!("{kustomization}: {}", manifests::name(workload)))?;
        }
        for object in &objects {
            let spec = &object["spec"];
            let (selector, namespace) = match object["kind"].as_str() {
                Some("Service") => (&spec["selector"], &object["metadata"]["namespace"]),
                Some("NetworkPolicy") => {
                    (&spec["podSelector"]["matchLabels"], &object["metadata"]["namespace"])
                }
                Some("PodMonitor" | "PodDisruptionBudget") => {
                    (&spec["selector"]["matchLabels"], &object["metadata"]["namespace"])
                }
                _ => continue,
            };
            let selected: Vec<_> = workloads
                .iter()
                .filter(|workload| workload["metadata"]["namespace"] == *namespace)
                .filter(|workload| contains(&workload["spec"]["template"]["metadata"]["labels"], selector))
                .collect();
            let name = manifests::name(object);
            ensure!(selected.len() == 1, "{kustomization}: {name} selects {} workloads", selected.len());
            let named = ports(selected[0]);
            for port in named_ports(spec) {
                ensure!(
                    named.contains(&port),
                    "{kustomization}: {name} asks for port {port:?}, not among {named:?}"
                );
            }
        }
    }
    Ok(())
}

/// A workload's selector finds its own pods, each mount has a volume and each volume a mount, and probes ask ports that are there.
fn fits(workload: &Value) -> anyhow::Result<()> {
    let (spec, template) = (&workload["spec"], &workload["spec"]["template"]);
    let labels = &template["metadata"]["labels"];
    ensure!(contains(labels, &spec["selector"]["matchLabels"]), "the selector does not find its own pods");
    let names = |list: &Value| -> Vec<String> {
        let entries = list.as_array().into_iter().flatten();
        entries.map(|entry| entry["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let mut volumes = names(&template["spec"]["volumes"]);
    let mut mounted = Vec::new();
    let named = ports(workload);
    for container in template["spec"]["containers"].as_array().into_iter().flatten() {
        mounted.extend(names(&container["volumeMounts"]));
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let Some(port) = container[probe]["httpGet"]["port"].as_str() else { continue };
            ensure!(named.iter().any(|name| name == port), "{probe} asks for port {port:?}");
        }
    }
    volumes.sort_unstable();
    mounted.sort_unstable();
    ensure!(volumes == mounted, "volumes {volumes:?}, mounts {mounted:?}");
    Ok(())
}

/// Whether `labels` has all of `wanted`; nothing wanted is a mistake here.
fn contains(labels: &Value, wanted: &Value) -> bool {
    wanted
        .as_object()
        .is_some_and(|wanted| !wanted.is_empty() && wanted.iter().all(|(key, value)| labels[key] == *value))
}

fn ports(workload: &Value) -> Vec<String> {
    let containers = workload["spec"]["template"]["spec"]["containers"].as_array().into_iter().flatten();
    let ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    ports.filter_map(|port| port["name"].as_str().map(str::to_owned)).collect()
}

/// Names of ports of the selected pods that a Service, a NetworkPolicy or a PodMonitor asks for.
fn named_ports(spec: &Value) -> Vec<String> {
    let list = |value: &Value, key: &str| -> Vec<String> {
        let entries = value.as_array().into_iter().flatten();
        entries.filter_map(|entry| entry[key].as_str().map(str::to_owned)).collect()
    };
    let mut found = list(&spec["ports"], "targetPort");
    found.extend(list(&spec["podMetricsEndpoints"], "port"));
    for rule in spec["ingress"].as_array().into_iter().flatten() {
        found.extend(list(&rule["ports"], "port"));
    }
    found
}

/// Exercises the overlays so that what runs there is told by a digest. Istio's webhook puts in its own image.
fn images_are_pinned() -> anyhow::Result<()> {
    for kustomization in ["overlays/homelab", "overlays/staging"] {
        let objects = rendered(kustomization)?;
        let mut pinned = 0;
        for object in &objects {
            let containers = object["spec"]["template"]["spec"]["containers"].as_array();
            for container in containers.into_iter().flatten() {
                let image = container["image"].as_str().unwrap_or_default();
                let by_digest = image.split_once("@sha256:").is_some_and(|(_, digest)| digest.len() == 64);
                ensure!(by_digest || image == "auto", "{kustomization}: image {image:?} has no digest");
                pinned += usize::from(by_digest);
            }
        }
        ensure!(pinned > 0, "{kustomization} has no image");
    }
    Ok(())
}
