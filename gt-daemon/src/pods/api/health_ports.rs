//! Ports that the kubelet's probes ask.

use std::net::IpAddr;

use super::object::{Container, Object, PortReference, Probe, Target};

/// The inbound ports of a pod that its liveness, readiness and startup probes go to, in order, each once.
///
/// A name stands for the port of that name in the same container, as the kubelet reads it. Probes by command
/// have no port. A probe of another host's address is none of this pod's ports.
#[must_use]
pub fn of(object: &Object, addresses: &[IpAddr]) -> Vec<u16> {
    let mut ports: Vec<_> = object
        .spec
        .containers
        .iter()
        .chain(object.spec.init_containers.iter().filter(|container| container.is_sidecar()))
        .flat_map(|container| {
            let probes = [&container.liveness_probe, &container.readiness_probe, &container.startup_probe];
            probes.into_iter().flatten().filter_map(|probe| port(container, probe, object, addresses))
        })
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn port(container: &Container, probe: &Probe, object: &Object, addresses: &[IpAddr]) -> Option<u16> {
    let target = probe.http_get.as_ref().or(probe.tcp_socket.as_ref()).or(probe.grpc.as_ref())?;
    let number = match &target.port {
        PortReference::Number(number) => Some(*number),
        PortReference::Name(name) => container
            .ports
            .iter()
            .find(|port| port.name.as_ref() == Some(name))
            .map(|port| port.container_port)
            .or_else(|| name.parse().ok()),
    };
    let port = number.and_then(|number| u16::try_from(number).ok()).filter(|port| *port != 0)?;
    asks_the_pod(target, object, addresses).then_some(port)
}

/// Whether a probe's host is the pod. The kubelet asks from the host's network, where `localhost` is the host.
fn asks_the_pod(target: &Target, object: &Object, addresses: &[IpAddr]) -> bool {
    match target.host.as_deref() {
        None | Some("") => true,
        Some(_) if object.spec.host_network => true,
        Some(host) => host.parse().is_ok_and(|address| addresses.contains(&address)),
    }
}

impl Container {
    /// Whether an init container stays for as long as the pod (`restartPolicy: Always`).
    #[must_use]
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises each kind of probe and of port, so that the health ports are those the kubelet asks.
    #[test]
    fn probes() {
        let named = r#""ports":[{"name":"status","containerPort":15021},{"containerPort":8080}]"#;
        for (name, container, expected) in [
            ("none", r#""ports":[]"#.to_owned(), vec![]),
            ("by command", r#""livenessProbe":{"exec":{"command":["true"]}}"#.to_owned(), vec![]),
            ("http", r#""livenessProbe":{"httpGet":{"port":8081,"path":"/"}}"#.to_owned(), vec![8081]),
            ("tcp", r#""readinessProbe":{"tcpSocket":{"port":8082}}"#.to_owned(), vec![8082]),
            ("grpc", r#""startupProbe":{"grpc":{"port":8083,"service":null}}"#.to_owned(), vec![8083]),
            (
                "by name",
                format!(r#"{named},"readinessProbe":{{"httpGet":{{"port":"status"}}}}"#),
                vec![15021],
            ),
            ("no such name", format!(r#"{named},"readinessProbe":{{"httpGet":{{"port":"http"}}}}"#), vec![]),
            ("digits", r#""readinessProbe":{"httpGet":{"port":"8084"}}"#.to_owned(), vec![8084]),
            ("no port", r#""readinessProbe":{"httpGet":{"port":0}}"#.to_owned(), vec![]),
            ("too large", r#""readinessProbe":{"httpGet":{"port":70000}}"#.to_owned(), vec![]),
            (
                "own host",
                r#""readinessProbe":{"httpGet":{"port":8085,"host":"10.1.2.3"}}"#.to_owned(),
                vec![8085],
            ),
            (
                "other host",
                r#""readinessProbe":{"httpGet":{"port":8085,"host":"10.9.9.9"}}"#.to_owned(),
                vec![],
            ),
            (
                "three, twice the same",
                r#""livenessProbe":{"httpGet":{"port":9}},"readinessProbe":{"httpGet":{"port":8}},
                   "startupProbe":{"tcpSocket":{"port":9}}"#
                    .to_owned(),
                vec![8, 9],
            ),
        ] {
            let text = format!(r#"{{"spec":{{"containers":[{{"name":"a",{container}}}]}}}}"#);
            let object: Object = serde_json::from_str(&text).unwrap();
            assert_eq!(of(&object, &["10.1.2.3".parse().unwrap()]), expected, "{name}");
        }
    }

    /// Exercises init containers, so that those that stay count and those that end do not.
    #[test]
    fn init_containers() {
        let probe = r#""livenessProbe":{"httpGet":{"port":7}}"#;
        for (policy, expected) in [("", vec![]), (r#","restartPolicy":"Always""#, vec![7])] {
            let text = format!(r#"{{"spec":{{"initContainers":[{{"name":"a",{probe}{policy}}}]}}}}"#);
            let object: Object = serde_json::from_str(&text).unwrap();
            assert_eq!(of(&object, &[]), expected);
        }
    }
}
