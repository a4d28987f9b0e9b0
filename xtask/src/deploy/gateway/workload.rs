//! A gateway as a Deployment (or the like), or as values of Istio's chart `gateway`, in one shape. Pure.

use serde_json::{Value, json};

use crate::deploy::manifests;

/// The container's name by which gt and its daemon know the sidecar.
const CONTAINER: &str = "hc";

/// The sidecar's port.
const PORT: u16 = 18180;

/// `drainDuration` of Istio's ProxyConfig where nobody sets it, in seconds.
const ISTIO_DRAIN_DURATION: f64 = 45.0;

/// What the numbers follow from stands in annotations of the workload, not of its pods.
const FACTS: [(&str, &str); 3] = [("p99", "--p99"), ("inter", "--inter"), ("fall", "--fall")];

/// The parts of a gateway that matter here.
#[derive(Clone, Debug)]
pub(super) struct Workload<'a> {
    pub(super) name: String,
    annotations: &'a Value,
    pod_annotations: &'a Value,
    strategy: &'a Value,
    affinity: &'a Value,
    grace: &'a Value,
    hc: &'a Value,
    /// Of a chart's values, which have the service beside the rest.
    service: Option<&'a Value>,
}

impl<'a> Workload<'a> {
    /// `None` for whatever has no container `hc`.
    pub(super) fn of(document: &'a Value) -> Option<Self> {
        let kind = document["kind"].as_str().unwrap_or_default();
        if matches!(kind, "Deployment" | "DaemonSet" | "StatefulSet")
            && document["spec"]["template"].is_object()
        {
            let (spec, template) = (&document["spec"], &document["spec"]["template"]);
            let strategy = ["strategy", "updateStrategy"].iter().map(|key| &spec[*key]);
            return Some(Self {
                name: manifests::name(document),
                annotations: &document["metadata"]["annotations"],
                pod_annotations: &template["metadata"]["annotations"],
                strategy: strategy.into_iter().find(|strategy| strategy.is_object()).unwrap_or(&Value::Null),
                affinity: &template["spec"]["affinity"],
                grace: &template["spec"]["terminationGracePeriodSeconds"],
                hc: container(&template["spec"]["containers"])?,
                service: None,
            });
        }
        Some(Self {
            name: "values of the chart".to_owned(),
            annotations: &document["annotations"],
            pod_annotations: &document["podAnnotations"],
            strategy: &document["strategy"],
            affinity: &document["affinity"],
            grace: &document["terminationGracePeriodSeconds"],
            hc: container(&document["additionalContainers"])?,
            service: Some(&document["service"]),
        })
    }

    /// The sidecar's environment, as far as it is written down.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let entries = self.hc["env"].as_array().into_iter().flatten();
        entries
            .filter_map(|entry| Some((entry["name"].as_str()?.to_owned(), text(&entry["value"])?)))
            .collect()
    }

    /// The other numbers, as flags of `gt-hc check`; those that are not there are left out.
    pub(super) fn flags(&self) -> Vec<(&'static str, String)> {
        let mut flags: Vec<_> = FACTS
            .iter()
            .filter_map(|(name, flag)| {
                Some((*flag, text(&self.annotations[format!("runbook.gt.dev/{name}")])?))
            })
            .collect();
        flags.extend(text(self.grace).map(|grace| ("--grace-period", grace)));
        flags.extend(self.drain_duration().map(|duration| ("--drain-duration", duration)));
        flags
    }

    /// `terminationDrainDuration` of the pod's ProxyConfig.
    fn drain_duration(&self) -> Option<String> {
        text(&self.proxy_config()?["terminationDrainDuration"])
    }

    /// Istio's ProxyConfig of the pod, which is YAML in an annotation.
    fn proxy_config(&self) -> Option<Value> {
        let config = self.pod_annotations["proxy.istio.io/config"].as_str()?;
        manifests::parse(config).ok()?.into_iter().next()
    }

    /// What is wrong with the time after which Envoy's listeners close. The kubelet sends SIGTERM to each container when its own
    /// preStop is over, so at once to Envoy's: Istio's agent begins `/drain_listeners?graceful` then, and Envoy closes its listeners,
    /// that of the readiness probe too, after `--drain-time-s`, which is `drainDuration` (istio, pkg/envoy: agent.go, admin.go,
    /// proxy.go). The load balancer sends new connections until it has noticed the 503.
    fn listeners_fault(&self) -> Option<String> {
        let config = self.proxy_config()?;
        let setting = |name: &str, default: &str| {
            let entries = self.environment().into_iter();
            entries.rev().find(|(key, _)| key == name).map_or(default.to_owned(), |(_, value)| value)
        };
        let told = text(&config["drainDuration"]);
        let closes = told.as_deref().map_or(Some(ISTIO_DRAIN_DURATION), seconds);
        // What is no time is told by `gt-hc check`.
        let (timeout, buffer) =
            (seconds(&setting("DRAIN_TIMEOUT", "120"))?, seconds(&setting("LB_BUFFER", "10"))?);
        if closes.is_some_and(|closes| closes >= timeout + buffer) {
            return None;
        }
        let told = told.unwrap_or_else(|| format!("Istio's own, {ISTIO_DRAIN_DURATION} s"));
        Some(format!(
            "drainDuration in proxy.istio.io/config is {told}, less than DRAIN_TIMEOUT {timeout} s + LB_BUFFER {buffer} s: Envoy refuses new connections while the load balancer is still told 200; set {} s or more",
            timeout + buffer
        ))
    }

    /// What is wrong beside the numbers.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut must = |holds: bool, fault: &str| {
            if !holds {
                faults.push(fault.to_owned());
            }
        };
        let hc = self.hc;
        let ports = hc["ports"].as_array().into_iter().flatten();
        must(
            ports.into_iter().any(|port| port["containerPort"] == PORT),
            "hc does not declare its port 18180",
        );
        let command = &hc["lifecycle"]["preStop"]["exec"]["command"];
        must(
            command.as_array().is_some_and(|words| words.iter().any(|word| word == "drain")),
            "hc has no preStop command `gt-hc drain`: the kubelet ends the pod without a drain",
        );
        must(
            hc["readinessProbe"]["httpGet"]["path"] == "/health",
            "hc's readinessProbe is not GET /health, which alone says when the pod may go",
        );
        must(
            hc["livenessProbe"].is_null() || hc["livenessProbe"]["httpGet"]["path"] == "/live",
            "hc's livenessProbe is not GET /live: any other answer turns to 503 in a drain, and the kubelet restarts hc",
        );
        let required = &self.affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        must(
            !(is_zero(&self.strategy["rollingUpdate"]["maxUnavailable"])
                && required.as_array().is_some_and(|terms| !terms.is_empty())),
            "maxUnavailable 0 with a required podAntiAffinity: with a pod on every node a rollout waits for ever; set 1, or prefer",
        );
        must(
            self.strategy["type"] != json!("Recreate"),
            "the strategy Recreate ends all pods at once: there is nobody left to take the requests",
        );
        faults.extend(self.listeners_fault());
        if let Some(service) = self.service {
            faults.extend(service_faults(service));
        }
        faults
    }
}

/// What is wrong with a service (its `spec`) by which the load balancer asks the sidecar.
pub(super) fn service_faults(service: &Value) -> Vec<String> {
    let mut ports = service["ports"].as_array().into_iter().flatten();
    let leads_to_hc = ports.any(|port| port["targetPort"] == PORT || port["targetPort"] == CONTAINER);
    let is_local = service["externalTrafficPolicy"] == "Local";
    if leads_to_hc && service["type"] != "ClusterIP" && !is_local {
        return vec![
            "externalTrafficPolicy is not Local: the load balancer gets the 200 of some other node's pod while the one here says 503"
                .to_owned(),
        ];
    }
    Vec::new()
}

fn container(containers: &Value) -> Option<&Value> {
    containers.as_array()?.iter().find(|container| container["name"] == CONTAINER)
}

/// A number or a text, as text.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A time as gt-hc and Istio take it, in seconds: `120`, `2.5`, `90s`, `500ms`, `2m`, `1h`.
fn seconds(time: &str) -> Option<f64> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let with_unit = units.into_iter().find_map(|(unit, factor)| Some((time.strip_suffix(unit)?, factor)));
    let (number, factor) = with_unit.unwrap_or((time, 1.0));
    let number: f64 = number.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * factor)
}

/// `0`, `"0"` and `0%`.
fn is_zero(value: &Value) -> bool {
    text(value).is_some_and(|text| text.trim_end_matches('%').parse() == Ok(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Value {
        let file = manifests::directory().join("gateway/deployment.yaml");
        let objects = manifests::read(&file).unwrap();
        manifests::of_kind(&objects, "Deployment").next().unwrap().clone()
    }

    fn faults(document: &Value) -> Vec<String> {
        Workload::of(document).unwrap().faults()
    }

    /// Exercises each rule beside the numbers so that the shipped gateway keeps it, and one that breaks it is told.
    #[test]
    fn one_fault_at_a_time() {
        let good = deployment();
        assert_eq!(faults(&good), Vec::<String>::new());
        let hc = "/spec/template/spec/containers/1";
        let anti = "/spec/template/spec/affinity/podAntiAffinity";
        for (path, value, word) in [
            (format!("{hc}/ports"), json!([]), "18180"),
            (format!("{hc}/lifecycle"), json!({}), "preStop"),
            (format!("{hc}/readinessProbe/httpGet/path"), json!("/live"), "readinessProbe"),
            (format!("{hc}/livenessProbe/httpGet/path"), json!("/health"), "livenessProbe"),
            ("/spec/strategy/type".to_owned(), json!("Recreate"), "Recreate"),
        ] {
            let mut bad = good.clone();
            *bad.pointer_mut(&path).unwrap() = value;
            let found = faults(&bad);
            assert!(found.len() == 1 && found[0].contains(word), "{path}: {found:?}");
        }
        let mut bad = good.clone();
        *bad.pointer_mut(anti).unwrap() = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{}]});
        assert_eq!(faults(&bad), Vec::<String>::new(), "one pod may go first");
        for zero in [json!(0), json!("0%")] {
            *bad.pointer_mut("/spec/strategy/rollingUpdate/maxUnavailable").unwrap() = zero;
            assert!(faults(&bad)[0].contains("waits for ever"));
        }
    }

    /// Exercises the time after which Envoy's listeners close, with other numbers of the sidecar too, so that one that is shorter
    /// than the drain is told, also when it is Istio's own.
    #[test]
    fn listeners_close_after_the_drain() {
        let pod = "/spec/template";
        let config = format!("{pod}/metadata/annotations/proxy.istio.io~1config");
        let env = format!("{pod}/spec/containers/1/env");
        for (drain, timeout, holds) in [
            ("drainDuration: 130s", "120", true),
            ("drainDuration: 129s", "120", false),
            ("drainDuration: 3m", "2m", true),
            ("drainDuration: soon", "120", false),
            ("terminationDrainDuration: 150s", "35s", true),
            ("terminationDrainDuration: 150s", "36", false),
        ] {
            let mut document = deployment();
            *document.pointer_mut(&config).unwrap() = json!(drain);
            *document.pointer_mut(&format!("{env}/0/value")).unwrap() = json!(timeout);
            let found = faults(&document);
            let told = found.iter().filter(|fault| fault.contains("drainDuration")).count();
            assert_eq!(
                (found.len(), told == 0),
                (usize::from(!holds), holds),
                "{drain}, {timeout}: {found:?}"
            );
        }
        let mut document = deployment();
        *document.pointer_mut(&config).unwrap() = json!("{}");
        *document.pointer_mut(&env).unwrap() = json!([]);
        assert!(
            faults(&document)[0].contains("45 s, less than DRAIN_TIMEOUT 120 s"),
            "{:?}",
            faults(&document)
        );
    }

    /// Exercises a service's policy so that only one that reaches the sidecar from outside matters.
    #[test]
    fn policies_of_services() {
        let service = |kind: &str, policy: &str, target: Value| json!({"type": kind, "externalTrafficPolicy": policy, "ports": [{"targetPort": target}]});
        assert_eq!(service_faults(&service("NodePort", "Cluster", json!("hc"))).len(), 1);
        assert_eq!(service_faults(&service("LoadBalancer", "", json!(18180))).len(), 1);
        for good in [
            service("NodePort", "Local", json!("hc")),
            service("ClusterIP", "", json!("hc")),
            service("NodePort", "Cluster", json!(8080)),
        ] {
            assert_eq!(service_faults(&good), Vec::<String>::new());
        }
    }
}
