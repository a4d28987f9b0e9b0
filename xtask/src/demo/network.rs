//! The two network namespaces of the demo, made and removed without a signal getting in between.
//!
//! A terminal's Ctrl-C also goes to the `ip` commands that do this; one that died half-way would leave
//! a namespace nobody owns.

use std::process;

use anyhow::Result;

use super::interrupt::{self, Deaf, Hearing};
use crate::sandbox::{End, Netns, veth};

/// The load balancer's side and the pod's, joined by a veth pair. The order of the fields is the order
/// of drop: signals wait from the first to the last.
#[derive(Debug)]
pub(super) struct Network {
    _from_here: Deaf,
    pub(super) lb: Netns,
    pub(super) pod: Netns,
    _to_here: Hearing,
}

impl Network {
    /// Makes both.
    pub(super) fn create() -> Result<Self> {
        interrupt::shielded(|| {
            let lb = Netns::create(&format!("gt-demo-{}-lb", process::id()))?;
            let pod = Netns::create(&format!("gt-demo-{}-pod", process::id()))?;
            veth(
                &End { netns: &lb, device: "eth0", addresses: &["10.77.0.1/24"] },
                &End { netns: &pod, device: "eth0", addresses: &["10.77.0.2/24"] },
            )?;
            Ok(Self { _from_here: Deaf, lb, pod, _to_here: Hearing })
        })
    }
}
