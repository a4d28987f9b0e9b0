//! The namespaces between which a drain is played: a client, a load balancer, and workers with a bridge each, on which
//! their pods are.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::Result;

use crate::{
    sandbox::{End, Netns, bridge, enslave, hardware_address, release, remove_device, veth},
    stage::envoy,
};

/// Where clients reach the load balancer.
pub(super) const FRONTEND: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 76, 0, 1)), FRONTEND_PORT);

pub(super) const FRONTEND_PORT: u16 = 8000;

/// A client's and a pod's device.
pub(super) const DEVICE: &str = "eth0";

/// A worker's device towards the load balancer.
pub(super) const UPLINK: &str = "uplink";

const BRIDGE: &str = "cni0";

/// How many workers there are.
pub(super) const WORKERS: usize = 2;

/// The namespaces that last as long as the lab does.
#[derive(Debug)]
pub(super) struct Topology {
    pub(super) client: Arc<Netns>,
    pub(super) lb: Arc<Netns>,
    pub(super) workers: Vec<Arc<Netns>>,
}

/// A place for a pod: one that comes after another has the same address, as on a port of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// From 0.
    pub(super) worker: usize,
    /// From 0, on its worker.
    pub(super) place: u8,
}

impl Slot {
    /// The server's name for the load balancer.
    pub(super) fn server(self) -> String {
        format!("worker{}-{}", self.worker + 1, self.place)
    }

    /// Where its gateway listens.
    pub(super) fn gateway(self) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(self.address()), envoy::PORT)
    }

    pub(super) fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.subnet(), 10 + self.place)
    }

    fn subnet(self) -> u8 {
        u8::try_from(self.worker + 1).unwrap_or(u8::MAX)
    }
}

/// A pod's namespace, and its port on the bridge when it is plugged in.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) netns: Arc<Netns>,
    worker: Arc<Netns>,
    port: String,
}

impl Topology {
    /// Makes them, and joins the client and each worker to the load balancer.
    pub(super) fn create() -> Result<Self> {
        let netns = |name: &str| Netns::create(&format!("gt-lab-{}-{name}", process::id())).map(Arc::new);
        let (client, lb) = (netns("client")?, netns("lb")?);
        veth(
            &End { netns: &client, device: DEVICE, addresses: &["10.76.0.2/24"] },
            &End { netns: &lb, device: DEVICE, addresses: &[&format!("{}/24", FRONTEND.ip())] },
        )?;
        let mut workers = Vec::new();
        for worker in 1..=WORKERS {
            let netns = netns(&format!("worker{worker}"))?;
            bridge(&netns, BRIDGE)?;
            veth(
                &End { netns: &netns, device: UPLINK, addresses: &[] },
                &End {
                    netns: &lb,
                    device: &format!("worker{worker}"),
                    addresses: &[&format!("10.77.{worker}.1/24")],
                },
            )?;
            enslave(&netns, UPLINK, BRIDGE)?;
            workers.push(netns);
        }
        Ok(Self { client, lb, workers })
    }

    /// A namespace for a pod, not on its worker's bridge yet.
    pub(super) fn pod(slot: Slot, worker: &Arc<Netns>) -> Result<Place> {
        // Devices go some time after their namespace: each pod's has a name of its own.
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let netns = Arc::new(Netns::create(&format!("gt-lab-{}-pod{number}", process::id()))?);
        let port = format!("pod{number}");
        veth(
            &End { netns: &netns, device: DEVICE, addresses: &[&format!("{}/24", slot.address())] },
            &End { netns: worker, device: &port, addresses: &[] },
        )?;
        // The load balancer remembers which hardware address the pod before had.
        let hardware = format!("02:67:74:00:{:02x}:{:02x}", slot.subnet(), slot.place);
        hardware_address(&netns, DEVICE, &hardware)?;
        Ok(Place { netns, worker: Arc::clone(worker), port })
    }
}

impl Place {
    /// Puts the pod on its worker's bridge: from here on it can be reached.
    pub(super) fn plug(&self) -> Result<()> {
        enslave(&self.worker, &self.port, BRIDGE)
    }

    /// Takes it off the bridge; its device stays, and whoever captures on it.
    pub(super) fn unplug(&self) -> Result<()> {
        release(&self.worker, &self.port)
    }
}

impl Drop for Place {
    /// Removes the pod's device, as a network plugin does when the containers have ended. Its namespace may live longer: as
    /// long as anybody looks into it, and that would answer for the address that the next pod has.
    fn drop(&mut self) {
        if let Err(error) = remove_device(&self.worker, &self.port) {
            eprintln!("left behind: device {} of {}: {error:#}", self.port, self.worker.name());
        }
    }
}
