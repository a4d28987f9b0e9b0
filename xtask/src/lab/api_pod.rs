//! A pod of the lab as the API server knows it: the template of `deploy/gateway`, with what a scheduler and a kubelet add to it.

use std::{
    net::Ipv4Addr,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    deploy::manifests,
    stage::{
        api::Api,
        pod::{self, Container, Pod},
    },
};

/// The manifest whose pods are played.
const MANIFEST: &str = "gateway/deployment.yaml";

/// A pod that the API server has. It has it no more when this is dropped.
#[derive(Debug)]
pub(super) struct ApiPod {
    api: Arc<Api>,
    uid: String,
    object: Value,
}

/// A deletion that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deletion {
    /// The second in which it was asked for, since 1970: the API has no finer time.
    pub(super) asked: i64,
    /// The seconds until the deadline, which is what `deletionTimestamp` says.
    pub(super) grace: i64,
}

impl ApiPod {
    /// Tells of a pod that is on its node and has no container yet; `grace`: whole seconds.
    pub(super) fn bind(api: &Arc<Api>, pod: &Pod, name: &str, node: &str, grace: Duration) -> Result<Self> {
        let manifest = manifests::read(&manifests::directory().join(MANIFEST))?;
        let deployment = manifests::of_kind(&manifest, "Deployment").next();
        let deployment = deployment.with_context(|| format!("deploy/{MANIFEST} has no Deployment"))?;
        let object = bound(deployment, pod.uid(), name, node, seconds(grace)?)?;
        api.apply(&object);
        Ok(Self { api: Arc::clone(api), uid: pod.uid().to_owned(), object })
    }

    /// Its containers run.
    pub(super) fn run(&mut self, address: Ipv4Addr, containers: &[&Container]) {
        let statuses = containers.iter().map(|container| {
            let id = format!("containerd://{}", container.id());
            json!({"name": container.name(), "containerID": id, "ready": true, "state": {"running": {}}})
        });
        self.object["status"] = json!({
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "containerStatuses": statuses.collect::<Vec<_>>(),
        });
        self.api.apply(&self.object);
    }

    /// Marks it as one that is to be deleted, with the grace period of its own.
    pub(super) fn mark(&mut self) -> Result<Deletion> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("a clock before 1970")?;
        let grace = self.object["spec"]["terminationGracePeriodSeconds"].as_i64();
        let deletion =
            Deletion { asked: seconds(now)?, grace: grace.context("a pod without a grace period")? };
        self.object["metadata"]["deletionTimestamp"] = json!(deletion.deadline()?);
        self.object["metadata"]["deletionGracePeriodSeconds"] = json!(deletion.grace);
        self.api.apply(&self.object);
        Ok(deletion)
    }

    /// All its containers have ended; well, or by SIGKILL.
    pub(super) fn end(&mut self, well: bool) {
        self.object["status"]["phase"] = json!(if well { "Succeeded" } else { "Failed" });
        if let Some(statuses) = self.object["status"]["containerStatuses"].as_array_mut() {
            for status in statuses {
                status["ready"] = json!(false);
                status["state"] = json!({"terminated": {"exitCode": if well { 0 } else { 137 }}});
            }
        }
        self.api.apply(&self.object);
    }
}

impl Drop for ApiPod {
    fn drop(&mut self) {
        self.api.delete(&self.uid);
    }
}

impl Deletion {
    /// As `deletionTimestamp` has it.
    fn deadline(self) -> Result<String> {
        let deadline = Timestamp::from_second(self.asked.saturating_add(self.grace));
        Ok(deadline.context("a deadline beyond all years")?.to_string())
    }
}

fn seconds(time: Duration) -> Result<i64> {
    i64::try_from(time.as_secs()).context("a time beyond all years")
}

/// A pod of a Deployment, as the scheduler leaves it. Beside the template's containers it has the lab's app.
fn bound(deployment: &Value, uid: &str, name: &str, node: &str, grace: i64) -> Result<Value> {
    let template = &deployment["spec"]["template"];
    let names = template["spec"]["containers"].as_array().context("a template without containers")?;
    ensure!(!names.is_empty(), "a template without containers");
    let (set, _) = name.rsplit_once('-').context("a pod's name without the name of its ReplicaSet")?;
    let (_, hash) = set.rsplit_once('-').context("a ReplicaSet's name without a hash")?;
    let mut pod = json!({
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": template["metadata"],
        "spec": template["spec"],
        "status": {"phase": "Pending"},
    });
    let meta = &mut pod["metadata"];
    meta["namespace"] = json!(pod::NAMESPACE);
    meta["name"] = json!(name);
    meta["uid"] = json!(uid);
    meta["labels"]["pod-template-hash"] = json!(hash);
    meta["ownerReferences"] = json!([
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": format!("of-{set}"), "controller": true},
    ]);
    let spec = &mut pod["spec"];
    spec["nodeName"] = json!(node);
    spec["terminationGracePeriodSeconds"] = json!(grace);
    if let Some(containers) = spec["containers"].as_array_mut() {
        containers.push(json!({"name": "app", "image": "app"}));
    }
    Ok(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises the manifest that is delivered so that the lab plays its pods: their containers, port and probes.
    #[test]
    fn a_pod_of_the_manifest() {
        let manifest = manifests::read(&manifests::directory().join(MANIFEST)).unwrap();
        let deployment = manifests::of_kind(&manifest, "Deployment").next().unwrap();
        let pod = bound(deployment, "u", "istio-ingressgateway-6d8f9c7b5-00001", "worker1", 34).unwrap();
        let containers = pod["spec"]["containers"].as_array().unwrap();
        let names: Vec<_> = containers.iter().filter_map(|container| container["name"].as_str()).collect();
        assert_eq!(names, ["istio-proxy", "hc", "app"]);
        assert_eq!(containers[1]["ports"][0]["containerPort"], 18180);
        assert_eq!(containers[1]["readinessProbe"]["httpGet"]["port"], "hc");
        assert_eq!(pod["metadata"]["labels"]["pod-template-hash"], "6d8f9c7b5");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["name"], "istio-ingressgateway-6d8f9c7b5");
        assert_eq!(pod["spec"]["nodeName"], "worker1");
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 34);
        assert!(bound(&json!({}), "u", "a-b-c", "n", 1).is_err());
    }

    /// Exercises a deletion so that its mark is the deadline, in whole seconds as an API server writes it.
    #[test]
    fn the_mark_is_the_deadline() {
        let deletion = Deletion { asked: 1_796_036_280, grace: 120 };
        assert_eq!(deletion.deadline().unwrap(), "2026-11-30T11:00:00Z");
    }
}
