//! What a pod says of itself: the annotations `gt.dev/..`.
//!
//! | Annotation | Value |
//! |---|---|
//! | `gt.dev/watch` | `true` or `false` |
//! | `gt.dev/health-ports` | ports, with commas between them; in place of those of the pod's probes |
//! | `gt.dev/admin-ports` | ports, with commas between them |
//! | `gt.dev/hc-port` | one port |
//! | `gt.dev/envoy-port` | one port |
//! | `gt.dev/protocol` | `http1`, `http2` or `tls` |
//!
//! A bad value is as good as none; the others hold.

use std::collections::BTreeMap;

use crate::pods::Declared;

/// What all of gt's annotations begin with.
pub const PREFIX: &str = "gt.dev/";

/// What a pod has stated; `None` where it says nothing, or nothing that can be understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    pub watch: Option<bool>,
    /// An empty list is a statement, too.
    pub health_ports: Option<Vec<u16>>,
    pub admin_ports: Vec<u16>,
    pub hc_port: Option<u16>,
    pub envoy_port: Option<u16>,
    pub protocol: Option<Declared>,
}

/// An annotation, or a part of one, that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub annotation: String,
    pub value: String,
    pub remedy: &'static str,
}

const PORT: &str = "write a number from 1 to 65535";
const PORTS: &str = "write up to 32 numbers from 1 to 65535 with commas between them, such as 8080,8443";

/// Ports of one list that are used: all pods share the kernel's map of ports, which has room for 16 of each.
const MOST_PORTS: usize = 32;

const WATCH: &str = "write \"true\" or \"false\"";
const PROTOCOL: &str = "write http1, http2 or tls";
const UNKNOWN: &str = "use gt.dev/watch, gt.dev/health-ports, gt.dev/admin-ports, gt.dev/hc-port, gt.dev/envoy-port or \
                       gt.dev/protocol";

/// Reads a pod's annotations, and tells what in them is not used; annotations of others are passed over.
#[must_use]
pub fn read(annotations: &BTreeMap<String, String>) -> (Stated, Vec<Complaint>) {
    let mut stated = Stated::default();
    let mut complaints = Vec::new();
    for (annotation, value) in annotations {
        let Some(name) = annotation.strip_prefix(PREFIX) else { continue };
        let mut complain = |value: &str, remedy| {
            complaints.push(Complaint { annotation: annotation.clone(), value: value.to_owned(), remedy });
        };
        let text = value.trim();
        match name {
            "watch" => match text {
                "true" => stated.watch = Some(true),
                "false" => stated.watch = Some(false),
                _ => complain(value, WATCH),
            },
            "health-ports" => stated.health_ports = Some(ports(text, |bad| complain(bad, PORTS))),
            "admin-ports" => stated.admin_ports = ports(text, |bad| complain(bad, PORTS)),
            "hc-port" => match port(text) {
                Some(port) => stated.hc_port = Some(port),
                None => complain(value, PORT),
            },
            "envoy-port" => match port(text) {
                Some(port) => stated.envoy_port = Some(port),
                None => complain(value, PORT),
            },
            "protocol" => match text {
                "http1" => stated.protocol = Some(Declared::Http1),
                "http2" => stated.protocol = Some(Declared::Http2),
                "tls" => stated.protocol = Some(Declared::Tls),
                _ => complain(value, PROTOCOL),
            },
            _ => complain(value, UNKNOWN),
        }
    }
    (stated, complaints)
}

fn ports(text: &str, mut complain: impl FnMut(&str)) -> Vec<u16> {
    let mut ports = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match port(part) {
            Some(port) if ports.contains(&port) => {}
            Some(port) if ports.len() < MOST_PORTS => ports.push(port),
            Some(_) => {
                complain(part);
                break;
            }
            None => complain(part),
        }
    }
    ports
}

fn port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> (Stated, Vec<(String, String)>) {
        let annotations =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (stated, complaints) = read(&annotations);
        (stated, complaints.into_iter().map(|fault| (fault.annotation, fault.value)).collect())
    }

    /// Exercises more ports than a pod may name, so that one pod does not take the room of all, and is told once.
    #[test]
    fn too_many_ports() {
        let all: Vec<_> = (1..=65_535).map(|port| port.to_string()).collect();
        let (stated, complaints) = of(&[("gt.dev/health-ports", &all.join(","))]);
        assert_eq!(stated.health_ports, Some((1..=32).collect()));
        assert_eq!(complaints, [("gt.dev/health-ports".to_owned(), "33".to_owned())]);
    }

    /// Exercises each annotation with a right value, beside one of somebody else.
    #[test]
    fn right_values() {
        let (stated, complaints) = of(&[
            ("gt.dev/watch", "true"),
            ("gt.dev/health-ports", "8081, 8082"),
            ("gt.dev/admin-ports", "9901"),
            ("gt.dev/hc-port", "18180"),
            ("gt.dev/envoy-port", "9902"),
            ("gt.dev/protocol", "http2"),
            ("prometheus.io/port", "no port at all"),
        ]);
        let expected = Stated {
            watch: Some(true),
            health_ports: Some(vec![8081, 8082]),
            admin_ports: vec![9901],
            hc_port: Some(18180),
            envoy_port: Some(9902),
            protocol: Some(Declared::Http2),
        };
        assert_eq!((stated, complaints), (expected, vec![]));
        assert_eq!(of(&[("gt.dev/watch", " false ")]).0.watch, Some(false));
        assert_eq!(of(&[("gt.dev/health-ports", "")]).0.health_ports, Some(vec![]));
        assert_eq!(of(&[]).0, Stated::default());
    }

    /// Exercises wrong values beside right ones, so that each is named and the rest is used.
    #[test]
    fn wrong_values() {
        let (stated, complaints) = of(&[
            ("gt.dev/watch", "yes"),
            ("gt.dev/health-ports", "8081,http,0,70000"),
            ("gt.dev/admin-ports", "-1"),
            ("gt.dev/hc-port", "18180,18181"),
            ("gt.dev/envoy-port", "0"),
            ("gt.dev/protocol", "grpc"),
            ("gt.dev/heath-ports", "1"),
        ]);
        assert_eq!(stated, Stated { health_ports: Some(vec![8081]), ..Stated::default() });
        for (annotation, value) in [
            ("gt.dev/watch", "yes"),
            ("gt.dev/health-ports", "http"),
            ("gt.dev/health-ports", "0"),
            ("gt.dev/health-ports", "70000"),
            ("gt.dev/admin-ports", "-1"),
            ("gt.dev/hc-port", "18180,18181"),
            ("gt.dev/envoy-port", "0"),
            ("gt.dev/protocol", "grpc"),
            ("gt.dev/heath-ports", "1"),
        ] {
            let expected = (annotation.to_owned(), value.to_owned());
            assert!(complaints.contains(&expected), "{expected:?} in {complaints:?}");
        }
        assert_eq!(complaints.len(), 9);
    }
}
