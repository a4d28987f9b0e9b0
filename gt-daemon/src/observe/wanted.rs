//! What is read in which pod, and by which way: pure.

use std::{fs::File, net::IpAddr, path::PathBuf, sync::Arc};

use crate::{
    envoy::{form::Form, reader::Endpoint},
    pods::{Pod, owners::Followed},
};

/// By what the sidecar and Envoy are known, and where they answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// Name of the container that is a health sidecar; `None`: none is, without a declared port.
    pub hc_container: Option<String>,
    /// Where such a container answers, when its pod declares nothing else.
    pub hc_port: u16,
    /// Names of containers that are Envoys.
    pub envoy_containers: Vec<String>,
    /// Where such a container answers, when its pod declares nothing else.
    pub envoy_endpoints: Vec<Endpoint>,
}

/// What is read in one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) hc: Option<Hc>,
    /// Where Envoy is asked.
    pub(super) envoy: Option<Vec<Endpoint>>,
}

/// A health sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hc {
    pub(super) port: u16,
    /// Directory of its log files, where that is known.
    pub(super) log: Option<PathBuf>,
}

/// How a pod is reached.
#[derive(Clone, Debug, Default)]
pub(super) enum Way {
    /// Not yet, or no longer.
    #[default]
    Closed,
    /// Inside its network namespace.
    Inside(Arc<File>),
    /// From outside: it is in the host's network.
    Outside(IpAddr),
    /// Never.
    Nowhere(&'static str),
}

/// The same way leads to the same place: a namespace is compared by its handle.
impl PartialEq for Way {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Closed, Self::Closed) => true,
            (Self::Inside(netns), Self::Inside(other)) => Arc::ptr_eq(netns, other),
            (Self::Outside(address), Self::Outside(other)) => address == other,
            (Self::Nowhere(reason), Self::Nowhere(other)) => reason == other,
            _ => false,
        }
    }
}

const NO_ADDRESS: &str = "it is in the host's network, and this source of pods does not tell its address: use --pods api, \
                          or give the pod a network namespace of its own";

impl Wanted {
    /// What a pod says it has, or shows by the names of its containers.
    pub(super) fn of(pod: &Pod, signs: &Signs) -> Self {
        let has = |name: &str| pod.containers.iter().any(|container| container.name == name);
        let hc_container = signs.hc_container.as_deref();
        let is_hc = hc_container.is_some_and(has);
        let hc = pod.hc_port.or(is_hc.then_some(signs.hc_port)).map(|port| {
            // Where no container is named, as for a service of systemd, the directory alone says whose log it is.
            let is_its_log = is_hc || pod.containers.is_empty();
            let log = pod.logs.as_ref().zip(hc_container).filter(|_| is_its_log);
            Hc { port, log: log.map(|(logs, container)| logs.join(container)) }
        });
        let declared = pod.envoy_port.map(|port| vec![Endpoint { port, form: Form::Text, proxied: false }]);
        let is_envoy = signs.envoy_containers.iter().any(|name| has(name));
        let envoy = declared.or_else(|| is_envoy.then(|| signs.envoy_endpoints.clone()));
        Self { hc, envoy }
    }

    /// Whether anything is.
    pub(super) fn is_any(&self) -> bool {
        self.hc.is_some() || self.envoy.is_some()
    }
}

impl Way {
    /// How this pod is reached now.
    pub(super) fn to(followed: &Followed) -> Self {
        let address = followed.pod.addresses.first().copied();
        match (&followed.netns, followed.host_network) {
            (Some(netns), _) => Self::Inside(Arc::clone(netns)),
            // The address may be another pod's soon.
            (None, true) if followed.gone => Self::Closed,
            (None, true) => address.map_or(Self::Nowhere(NO_ADDRESS), Self::Outside),
            (None, false) => Self::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{envoy::reader, pods::Container};

    fn signs() -> Signs {
        Signs {
            hc_container: Some("hc".to_owned()),
            hc_port: 18_180,
            envoy_containers: vec!["istio-proxy".to_owned(), "envoy".to_owned()],
            envoy_endpoints: reader::Settings::default().endpoints,
        }
    }

    fn pod(containers: &[&str]) -> Pod {
        let container = |name: &&str| Container { name: (*name).to_owned(), id: None, cgroup: None };
        Pod { containers: containers.iter().map(container).collect(), ..Pod::default() }
    }

    fn ports(wanted: &Wanted) -> (Option<u16>, Option<Vec<u16>>) {
        let envoy = wanted.envoy.as_ref().map(|all| all.iter().map(|endpoint| endpoint.port).collect());
        (wanted.hc.as_ref().map(|hc| hc.port), envoy)
    }

    /// Exercises names and declared ports, so that nothing is asked in a pod that shows neither.
    #[test]
    fn what_a_pod_has() {
        let all = || Some(vec![15_000, 15_090, 15_020]);
        let of = |pod: &Pod| ports(&Wanted::of(pod, &signs()));
        assert_eq!(of(&pod(&["hc", "istio-proxy"])), (Some(18_180), all()));
        assert_eq!(of(&pod(&["app", "envoy"])), (None, all()));
        assert_eq!(of(&pod(&["app", "hcx", "istio-proxy-2"])), (None, None));
        assert!(!Wanted::of(&pod(&["app"]), &signs()).is_any() && !Wanted::of(&pod(&[]), &signs()).is_any());
        let declared = Pod { hc_port: Some(1), envoy_port: Some(2), ..pod(&["app"]) };
        assert_eq!(of(&declared), (Some(1), Some(vec![2])));
        let both = Pod { hc_port: Some(1), envoy_port: Some(2), ..pod(&["hc", "envoy"]) };
        assert_eq!(of(&both), (Some(1), Some(vec![2])));
        let nobody = Signs { hc_container: None, envoy_containers: vec![], ..signs() };
        assert!(!Wanted::of(&pod(&["hc", "envoy"]), &nobody).is_any());
        assert_eq!(ports(&Wanted::of(&declared, &nobody)), (Some(1), Some(vec![2])));
    }

    /// Exercises logs, so that only the sidecar's is read.
    #[test]
    fn whose_log() {
        let log = |pod: Pod| {
            let pod = Pod { logs: Some("/logs/a_b_c".into()), ..pod };
            Wanted::of(&pod, &signs()).hc.and_then(|hc| hc.log)
        };
        let expected = Some(PathBuf::from("/logs/a_b_c/hc"));
        assert_eq!(log(pod(&["hc", "app"])), expected);
        assert_eq!(log(Pod { hc_port: Some(1), ..pod(&[]) }), expected);
        assert_eq!(log(Pod { hc_port: Some(1), ..pod(&["app"]) }), None);
        assert_eq!(log(pod(&["app"])), None);
    }

    /// Exercises pods by where they live, so that none is asked at an address that is another's.
    #[test]
    fn ways() {
        let netns = Some(Arc::new(File::open("/proc/self/ns/net").unwrap()));
        let address: IpAddr = "10.0.0.7".parse().unwrap();
        let way = |netns: &Option<Arc<File>>, host_network, gone, addresses: &[IpAddr]| {
            let pod = Arc::new(Pod { addresses: addresses.to_vec(), ..Pod::default() });
            Way::to(&Followed { uid: "u".into(), slot: 1, pod, netns: netns.clone(), host_network, gone })
        };
        let inside = way(&netns, false, false, &[address]);
        assert!(
            matches!(&inside, Way::Inside(at) if netns.as_ref().is_some_and(|netns| Arc::ptr_eq(at, netns)))
        );
        assert!(inside == way(&netns, false, false, &[]), "its address becomes known, and is not used");
        assert!(inside == way(&netns, false, true, &[address]), "gone, and its namespace still open");
        let other = Some(Arc::new(File::open("/proc/self/ns/net").unwrap()));
        assert!(inside != way(&other, false, false, &[address]));
        assert!(way(&None, false, false, &[address]) == Way::Closed);
        assert!(way(&None, true, false, &[address]) == Way::Outside(address));
        assert!(way(&None, true, true, &[address]) == Way::Closed);
        assert!(
            matches!(way(&None, true, false, &[]), Way::Nowhere(reason) if reason.contains("--pods api"))
        );
    }
}
