//! The two network namespaces of a stage with one pod.

use std::{
    net::{IpAddr, Ipv4Addr},
    process,
    sync::Arc,
};

use anyhow::Result;

use crate::sandbox::{End, Netns, veth};

/// The load balancer's address.
pub const LB: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));

/// The pod's address.
pub const POD: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));

/// The name of the network device in both namespaces.
pub const DEVICE: &str = "eth0";

/// The load balancer's side and the pod's, joined by a veth pair.
#[derive(Debug)]
pub struct Network {
    pub lb: Arc<Netns>,
    pub pod: Arc<Netns>,
}

impl Network {
    /// Makes both, with names that begin with `prefix`.
    pub fn create(prefix: &str) -> Result<Self> {
        let netns = |end: &str| Netns::create(&format!("{prefix}-{}-{end}", process::id())).map(Arc::new);
        let (lb, pod) = (netns("lb")?, netns("pod")?);
        veth(
            &End { netns: &lb, device: DEVICE, addresses: &[&format!("{LB}/24")] },
            &End { netns: &pod, device: DEVICE, addresses: &[&format!("{POD}/24")] },
        )?;
        Ok(Self { lb, pod })
    }
}
