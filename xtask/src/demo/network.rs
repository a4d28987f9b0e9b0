//! The two network namespaces of the demo.

use std::process;

use anyhow::Result;

use crate::sandbox::{End, Netns, veth};

/// The load balancer's side and the pod's, joined by a veth pair.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) lb: Netns,
    pub(super) pod: Netns,
}

impl Network {
    /// Makes both.
    pub(super) fn create() -> Result<Self> {
        let lb = Netns::create(&format!("gt-demo-{}-lb", process::id()))?;
        let pod = Netns::create(&format!("gt-demo-{}-pod", process::id()))?;
        veth(
            &End { netns: &lb, device: "eth0", addresses: &["10.77.0.1/24"] },
            &End { netns: &pod, device: "eth0", addresses: &["10.77.0.2/24"] },
        )?;
        Ok(Self { lb, pod })
    }
}
