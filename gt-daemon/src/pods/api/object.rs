//! A pod as the API sends it, cut down to the fields that are used.
//!
//! Everything else (environment, volumes, conditions, `managedFields`) is skipped while it is read. Lists may
//! be `null`, as Go writes empty ones.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{
    NamespaceResourceScope,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use kube::Resource;
use serde::{Deserialize, Deserializer};

use super::annotations;

/// A pod of the API.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Wire")]
pub struct Object {
    /// Of the annotations only gt's and the kubelet's.
    pub meta: ObjectMeta,
    pub spec: Spec,
    pub status: Status,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
}

/// `spec` of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    #[serde(default, deserialize_with = "null_is_empty")]
    pub containers: Vec<Container>,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub init_containers: Vec<Container>,
    #[serde(default)]
    pub host_network: bool,
    pub termination_grace_period_seconds: Option<i64>,
}

/// One of `spec.containers` or `spec.initContainers`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    pub name: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub ports: Vec<Port>,
    pub liveness_probe: Option<Probe>,
    pub readiness_probe: Option<Probe>,
    pub startup_probe: Option<Probe>,
    /// `Always` makes a sidecar of an init container.
    pub restart_policy: Option<String>,
}

/// One of a container's `ports`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    pub name: Option<String>,
    pub container_port: i64,
}

/// A probe; one of the three is set, or none where a command is run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    pub http_get: Option<Target>,
    pub tcp_socket: Option<Target>,
    pub grpc: Option<Target>,
}

/// Where a probe goes.
#[derive(Clone, Debug, Deserialize)]
pub struct Target {
    pub port: PortReference,
    /// The pod's address where none is given.
    pub host: Option<String>,
}

/// A port by number, or by its name in the container's `ports`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum PortReference {
    Number(i64),
    Name(String),
}

/// `status` of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub phase: Option<String>,
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    #[serde(default, rename = "podIPs", deserialize_with = "null_is_empty")]
    pub pod_ips: Vec<Address>,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub container_statuses: Vec<ContainerStatus>,
    #[serde(default, deserialize_with = "null_is_empty")]
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// One of `status.podIPs`.
#[derive(Clone, Debug, Deserialize)]
pub struct Address {
    pub ip: Option<String>,
}

/// One of `status.containerStatuses` or `status.initContainerStatuses`.
#[derive(Clone, Debug, Deserialize)]
pub struct ContainerStatus {
    pub name: String,
    /// `<runtime>://<id>`, of the container that runs or ran last.
    #[serde(rename = "containerID")]
    pub container_id: Option<String>,
}

impl From<Wire> for Object {
    fn from(Wire { metadata, spec, status }: Wire) -> Self {
        let mut kept = metadata.annotations.unwrap_or_default();
        kept.retain(|name, _| {
            name.starts_with(annotations::PREFIX) || name.starts_with("kubernetes.io/config.")
        });
        let meta = ObjectMeta {
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            labels: metadata.labels,
            annotations: Some(kept),
            owner_references: metadata.owner_references,
            deletion_timestamp: metadata.deletion_timestamp,
            deletion_grace_period_seconds: metadata.deletion_grace_period_seconds,
            ..ObjectMeta::default()
        };
        Self { meta, spec, status }
    }
}

/// Pods of the core API, `/api/v1/../pods`.
impl Resource for Object {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Pod".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises objects with next to nothing in them, so that one odd pod does not fail the list it is in.
    #[test]
    fn sparse_objects() {
        for text in [
            "{}",
            r#"{"metadata":{}}"#,
            r#"{"metadata":{"labels":null,"annotations":null,"ownerReferences":null},"spec":{"containers":null},"status":{}}"#,
            r#"{"spec":{"containers":[{"name":"a","ports":null,"livenessProbe":{"exec":{"command":["x"]}}}]},
                "status":{"podIPs":null,"containerStatuses":[{"name":"a"}]}}"#,
        ] {
            serde_json::from_str::<Object>(text).unwrap();
        }
    }

    /// Exercises annotations, so that big ones of others are not kept.
    #[test]
    fn annotations_of_others_are_dropped() {
        let text = r#"{"metadata":{"annotations":{"gt.dev/watch":"true","kubernetes.io/config.hash":"x",
            "kubectl.kubernetes.io/last-applied-configuration":"{}"}}}"#;
        let object: Object = serde_json::from_str(text).unwrap();
        let kept: Vec<_> = object.meta.annotations.unwrap().into_keys().collect();
        assert_eq!(kept, ["gt.dev/watch", "kubernetes.io/config.hash"]);
    }
}
