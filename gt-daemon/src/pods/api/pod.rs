//! From the API's object to what gt keeps of a pod.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    time::{Duration, SystemTime},
};

use super::{
    annotations::{self, Complaint, Stated},
    health_ports,
    object::{ContainerStatus, Object},
    workload,
};
use crate::pods::{
    Class, Container, Deletion, Pod, kubelet,
    selection::{Candidate, Refusal, Selection},
    source::KUBELET_LOGS,
};

/// Where a kubelet states the UID that it gave a static pod.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// What marks the API's image of a static pod; only kubelets may make such pods run.
const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";

/// What is kept of a pod of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub namespace: String,
    pub name: String,
    /// The kubelet's UID.
    pub uid: String,
    /// The pod if it is selected; else why it is not.
    pub pod: Result<Pod, Refusal>,
    /// What of its annotations is not used.
    pub complaints: Vec<Complaint>,
}

/// Reads an object; `None` for one without a name or UID, which no API server sends.
#[must_use]
pub fn read(object: &Object, selection: &Selection) -> Option<Entry> {
    let none = BTreeMap::new();
    let meta = &object.meta;
    let namespace = meta.namespace.clone().unwrap_or_default();
    let name = meta.name.clone().filter(|name| !name.is_empty())?;
    let api_uid = meta.uid.clone().filter(|uid| !uid.is_empty())?;
    let labels = meta.labels.as_ref().unwrap_or(&none);
    let annotations = meta.annotations.as_ref().unwrap_or(&none);
    let (stated, complaints) = annotations::read(annotations);

    let containers = containers(object);
    let names: Vec<_> = containers.iter().map(|container| container.name.as_str()).collect();
    let decision = selection.decide(Candidate {
        namespace: &namespace,
        labels,
        containers: &names,
        finished: matches!(object.status.phase.as_deref(), Some("Succeeded" | "Failed")),
        stated: stated.watch,
    });
    let uid = static_uid(annotations).unwrap_or(&api_uid).to_owned();
    let pod = decision.map(|()| {
        let addresses = addresses(object);
        Pod {
            namespace: namespace.clone(),
            name: name.clone(),
            uid: uid.clone(),
            api_uid: (api_uid != uid).then_some(api_uid),
            labels: Some(labels.clone()),
            ports: ports(&stated, object, &addresses),
            containers,
            protocol: stated.protocol,
            hc_port: stated.hc_port,
            envoy_port: stated.envoy_port,
            logs: Some(kubelet::logs(KUBELET_LOGS.as_ref(), &namespace, &name, &uid)),
            host_network: Some(object.spec.host_network),
            addresses,
            workload: workload::of(meta.owner_references.as_deref().unwrap_or_default(), labels),
            grace: object.spec.termination_grace_period_seconds.and_then(seconds),
            deletion: meta.deletion_timestamp.as_ref().map(|deadline| Deletion {
                deadline: SystemTime::from(deadline.0),
                grace: meta.deletion_grace_period_seconds.and_then(seconds).unwrap_or_default(),
            }),
            cgroup: None,
            netns: None,
        }
    });
    Some(Entry { namespace, name, uid, pod, complaints })
}

/// The UID that cgroups and log directories of a static pod carry: the API knows only its mirror, which has
/// another.
fn static_uid(annotations: &BTreeMap<String, String>) -> Option<&String> {
    annotations.get(CONFIG_MIRROR)?;
    annotations.get(CONFIG_HASH).filter(|uid| !uid.is_empty())
}

/// The containers that stay for as long as the pod, in the order of their names.
fn containers(object: &Object) -> Vec<Container> {
    let of = |name: &str, statuses: &[ContainerStatus]| Container {
        name: name.to_owned(),
        id: statuses
            .iter()
            .find(|status| status.name == name)
            .and_then(|status| id(status.container_id.as_deref()?)),
        cgroup: None,
    };
    let sidecars = object.spec.init_containers.iter().filter(|container| container.is_sidecar());
    let mut containers: Vec<_> = object
        .spec
        .containers
        .iter()
        .map(|container| of(&container.name, &object.status.container_statuses))
        .chain(sidecars.map(|container| of(&container.name, &object.status.init_container_statuses)))
        .collect();
    containers.sort();
    containers
}

/// The id in `containerd://<64 hex digits>`, whatever the runtime.
fn id(text: &str) -> Option<String> {
    let (_, id) = text.split_once("://")?;
    (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

/// Of a port that stands in several places the last counts: the admin ports'.
fn ports(stated: &Stated, object: &Object, addresses: &[IpAddr]) -> Vec<(u16, Class)> {
    let health = stated.health_ports.clone().unwrap_or_else(|| health_ports::of(object, addresses));
    let mut ports: Vec<(u16, Class)> = Vec::new();
    let health = health.into_iter().chain(stated.hc_port).map(|port| (port, Class::Health));
    let admin = stated.admin_ports.iter().copied().chain(stated.envoy_port).map(|port| (port, Class::Admin));
    for (port, class) in health.chain(admin) {
        ports.retain(|(known, _)| *known != port);
        ports.push((port, class));
    }
    ports
}

fn addresses(object: &Object) -> Vec<IpAddr> {
    let all = object.status.pod_ips.iter().filter_map(|address| address.ip.as_deref());
    let mut addresses: Vec<IpAddr> =
        object.status.pod_ip.as_deref().into_iter().chain(all).filter_map(|text| text.parse().ok()).collect();
    // The first of the list is the single one again.
    addresses.dedup();
    addresses
}

fn seconds(count: i64) -> Option<Duration> {
    u64::try_from(count).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(name: &str) -> Vec<u8> {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/api").join(name);
        std::fs::read(file).unwrap()
    }

    fn recorded(name: &str) -> Object {
        serde_json::from_slice(&bytes_of(name)).unwrap()
    }

    fn watched(object: &Object) -> Pod {
        read(object, &Selection::default()).unwrap().pod.unwrap()
    }

    /// Exercises a gateway's pod with a sidecar, an init container that ends, probes by name and by number.
    #[test]
    fn a_gateway() {
        let pod = watched(&recorded("gateway.json"));
        assert_eq!((pod.namespace.as_str(), pod.name.as_str()), ("edge", "igw-6d8f9c7b5-x2kqp"));
        assert_eq!((pod.uid.as_str(), pod.api_uid), ("8ba3b3c8-6cb5-4d4f-9c3e-2a8f1a7d7f10", None));
        let containers: Vec<_> =
            pod.containers.iter().map(|c| (c.name.as_str(), c.id.as_deref().map(|id| &id[..4]))).collect();
        assert_eq!(containers, [("hc", Some("1a2b")), ("istio-proxy", Some("3c4d"))]);
        assert_eq!(pod.ports, [(15021, Class::Health), (18180, Class::Health)]);
        let workload = pod.workload.unwrap();
        assert_eq!((workload.kind.as_str(), workload.name.as_str()), ("Deployment", "igw"));
        assert_eq!(pod.addresses, ["10.42.0.17".parse::<IpAddr>().unwrap(), "fd00:42::11".parse().unwrap()]);
        assert_eq!((pod.host_network, pod.grace), (Some(false), Some(Duration::from_secs(120))));
        assert_eq!(pod.deletion, None);
        let logs = "/var/log/pods/edge_igw-6d8f9c7b5-x2kqp_8ba3b3c8-6cb5-4d4f-9c3e-2a8f1a7d7f10";
        assert_eq!(pod.logs.as_deref(), Some(std::path::Path::new(logs)));
    }

    /// Exercises a pod whose deletion was asked for, so that the request's instant is not taken for the deadline.
    #[test]
    fn a_deletion() {
        let deletion = watched(&recorded("gateway-deleting.json")).deletion.unwrap();
        let deadline = SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_036_400);
        assert_eq!((deletion.deadline, deletion.grace), (deadline, Duration::from_secs(120)));
        assert_eq!(deletion.requested(), deadline - Duration::from_secs(120));
    }

    /// Exercises the mirror of a static pod, so that its cgroup and logs are found; and a pod that only claims
    /// another's UID.
    #[test]
    fn static_pods() {
        let mut object = recorded("static-pod.json");
        let pod = watched(&object);
        assert_eq!(pod.uid, "01d7e312da0f9c4176daa8464d4d1a50");
        assert_eq!(pod.api_uid.as_deref(), Some("7a26335b-a3d4-458c-ad4a-d90ebe1f36ed"));
        assert_eq!(pod.host_network, Some(true));
        assert_eq!(pod.workload.map(|workload| workload.kind).as_deref(), Some("Node"));
        object.meta.annotations.as_mut().unwrap().remove(CONFIG_MIRROR);
        let pod = watched(&object);
        assert_eq!((pod.uid.as_str(), pod.api_uid), ("7a26335b-a3d4-458c-ad4a-d90ebe1f36ed", None));
    }

    /// Exercises ports that are stated, against those of the probes.
    #[test]
    fn stated_ports() {
        let mut object = recorded("gateway.json");
        let mut state = |name: &str, value: &str| {
            object.meta.annotations.as_mut().unwrap().insert(name.to_owned(), value.to_owned());
            watched(&object).ports
        };
        let (health, admin) = (Class::Health, Class::Admin);
        assert_eq!(state("gt.dev/hc-port", "9000"), [(15021, health), (18180, health), (9000, health)]);
        assert_eq!(
            state("gt.dev/health-ports", "7000,7001"),
            [(7000, health), (7001, health), (9000, health)]
        );
        assert_eq!(state("gt.dev/admin-ports", "7001"), [(7000, health), (9000, health), (7001, admin)]);
        assert_eq!(state("gt.dev/health-ports", ""), [(9000, health), (7001, admin)]);
        assert_eq!(state("gt.dev/envoy-port", "9901"), [(9000, health), (7001, admin), (9901, admin)]);
    }

    proptest! {
        /// Exercises a recorded pod with other characters in any place, so that none panics.
        #[test]
        fn damaged_objects(place in 0..9000_usize, bytes in "[-0-9a-z\",:{}\\[\\] ]{1,6}|-?[0-9]{9,20}") {
            let mut text = bytes_of("gateway-deleting.json");
            text.splice(place..place + bytes.len(), bytes.bytes());
            if let Ok(object) = serde_json::from_slice::<Object>(&text) {
                let pod = read(&object, &Selection::default()).and_then(|entry| entry.pod.ok());
                prop_assert!(pod.and_then(|pod| pod.deletion).is_none_or(|deletion| deletion.requested() <= deletion.deadline));
            }
        }
    }

    /// Exercises ids of other runtimes, and texts that are none.
    #[test]
    fn container_ids() {
        let hex = "0f".repeat(32);
        for runtime in ["containerd", "cri-o", "docker"] {
            assert_eq!(id(&format!("{runtime}://{hex}")), Some(hex.clone()));
        }
        for wrong in ["", "containerd://", "containerd://abc", hex.as_str()] {
            assert_eq!(id(wrong), None, "{wrong}");
        }
    }
}
