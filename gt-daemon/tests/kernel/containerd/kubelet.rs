//! A kubelet's part: pods' cgroups, log directories and links, and the calls to the runtime.

use std::{collections::BTreeMap, fs, net::SocketAddr, os::unix::fs::symlink, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};
use xtask::sandbox::eventually;

use super::{
    cri::{
        ContainerConfig, ContainerMetadata, ContainerSecurity, CreateContainer, ImageSpec, KeyValue,
        LinuxContainer, LinuxSandbox, NamespaceMode, NamespaceOption, PodSandboxConfig, PodSandboxMetadata,
        PodSandboxStatus, RemovePodSandbox, RunPodSandbox, RuntimeDefault, SandboxSecurity, StartContainer,
        StopContainer, StopPodSandbox,
    },
    hierarchies::Everywhere,
    image,
    node::{Driver, Node},
};
use crate::child;

/// A container may take seconds to start, on an emulated machine ten times as long.
const START: Duration = Duration::from_secs(60);

/// A pod as the API would describe it.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub namespace: &'static str,
    pub name: &'static str,
    pub uid: &'static str,
    /// Whether its QoS class is `Burstable`; else it is `Guaranteed`, and lies directly below `kubepods`.
    pub burstable: bool,
    pub host_network: bool,
    /// Whether its processes see all of the node's, and the runtime's own seccomp profile is asked for: gt's own pod.
    pub watches: bool,
}

impl Spec {
    /// What the kubelet sends as `cgroup_parent` (pkg/kubelet/cm, `ToCgroupfs` and `ToSystemd`).
    fn cgroup_parent(&self, driver: Driver) -> String {
        match (driver, self.burstable) {
            (Driver::Cgroupfs, true) => format!("/kubepods/burstable/pod{}", self.uid),
            (Driver::Cgroupfs, false) => format!("/kubepods/pod{}", self.uid),
            (Driver::Systemd, true) => format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice",
                self.uid.replace('-', "_")
            ),
            (Driver::Systemd, false) => {
                format!("/kubepods.slice/kubepods-pod{}.slice", self.uid.replace('-', "_"))
            }
        }
    }
}

/// A pod that runs until the node ends.
pub struct Pod<'a> {
    spec: Spec,
    node: &'a Node,
    config: PodSandboxConfig,
    sandbox: String,
    /// Made by the kubelet with the driver cgroupfs, by systemd otherwise.
    _cgroups: Option<Everywhere>,
    /// How many containers of each name were made.
    made: BTreeMap<String, u32>,
}

/// The directory that stands for `/var/log/pods`.
pub fn logs(node: &Node) -> PathBuf {
    node.directory().join("log/pods")
}

/// The directory that stands for `/var/log/containers`.
pub fn links(node: &Node) -> PathBuf {
    logs(node).with_file_name("containers")
}

impl<'a> Pod<'a> {
    /// Makes the pod's cgroup, its log directory and its sandbox.
    pub fn start(node: &'a Node, spec: Spec) -> Result<Self> {
        let logs = logs(node).join(format!("{}_{}_{}", spec.namespace, spec.name, spec.uid));
        fs::create_dir_all(&logs)?;
        let parent = spec.cgroup_parent(node.driver);
        let cgroups = match node.driver {
            Driver::Cgroupfs => Some(Everywhere::create(&parent)?),
            Driver::Systemd => None,
        };
        let config = PodSandboxConfig {
            metadata: Some(PodSandboxMetadata {
                name: spec.name.to_owned(),
                uid: spec.uid.to_owned(),
                namespace: spec.namespace.to_owned(),
                attempt: 0,
            }),
            hostname: if spec.host_network { String::new() } else { spec.name.to_owned() },
            log_directory: logs.display().to_string(),
            linux: Some(LinuxSandbox {
                cgroup_parent: parent,
                security_context: Some(SandboxSecurity {
                    namespace_options: Some(namespaces(&spec)),
                    seccomp: spec.watches.then_some(RuntimeDefault {}),
                }),
            }),
        };
        let request = RunPodSandbox { config: Some(config.clone()) };
        let sandbox = node.cri.call(request)?.id;
        Ok(Self { spec, node, config, sandbox, _cgroups: cgroups, made: BTreeMap::new() })
    }

    /// Starts a container that listens on a port (0: any), and waits until it does. One of the same name that was
    /// stopped gets a successor, and keeps its link beside the new one's.
    pub fn serve(&mut self, name: &str, port: u16) -> Result<Container> {
        let address = if self.spec.host_network { "127.0.0.1" } else { "0.0.0.0" };
        let (key, value) = child::listen(&format!("{address}:{port}"));
        let (id, log) = self.run(
            name,
            ContainerConfig {
                image: Some(ImageSpec { image: image::NAME.to_owned() }),
                envs: vec![KeyValue { key: key.to_owned(), value }],
                linux: Some(LinuxContainer {
                    security_context: Some(ContainerSecurity {
                        namespace_options: Some(namespaces(&self.spec)),
                        ..ContainerSecurity::default()
                    }),
                }),
                ..ContainerConfig::default()
            },
        )?;
        let port =
            eventually("the container to listen", START, || listening_port(&fs::read_to_string(&log).ok()?))?;
        Ok(Container { id, address: self.address(port)? })
    }

    /// Starts a container, which gets its name and its log here. Returns its id and the log.
    pub fn run(&mut self, name: &str, config: ContainerConfig) -> Result<(String, PathBuf)> {
        let made = self.made.entry(name.to_owned()).or_default();
        let attempt = *made;
        *made += 1;
        let log_path = format!("{name}/{attempt}.log");
        let log = PathBuf::from(&self.config.log_directory).join(&log_path);
        fs::create_dir_all(log.parent().context("a log in a directory")?)?;
        let metadata = Some(ContainerMetadata { name: name.to_owned(), attempt });
        let request = CreateContainer {
            pod_sandbox_id: self.sandbox.clone(),
            config: Some(ContainerConfig { metadata, log_path, ..config }),
            sandbox_config: Some(self.config.clone()),
        };
        let id = self.node.cri.call(request)?.id;
        self.node.cri.call(StartContainer { id: id.clone() })?;
        let links = links(self.node);
        fs::create_dir_all(&links)?;
        let link = format!("{}_{}_{name}-{id}.log", self.spec.name, self.spec.namespace);
        symlink(&log, links.join(link))?;
        Ok((id, log))
    }

    /// Where the pod's sockets are reached.
    pub fn address(&self, port: u16) -> Result<SocketAddr> {
        if self.spec.host_network {
            return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
        }
        let status = self.node.cri.call(PodSandboxStatus { id: self.sandbox.clone() })?.status;
        let ip = status.and_then(|status| status.network).map(|network| network.ip).unwrap_or_default();
        Ok(SocketAddr::new(ip.parse().with_context(|| format!("{ip:?} is no pod's address"))?, port))
    }

    /// Kills a container.
    pub fn stop(&self, container: Container) -> Result<()> {
        self.node.cri.call(StopContainer { id: container.id }).map(drop)
    }

    /// Ends the pod and removes what told of it.
    pub fn remove(self) -> Result<()> {
        self.node.cri.call(StopPodSandbox { id: self.sandbox.clone() })?;
        self.node.cri.call(RemovePodSandbox { id: self.sandbox.clone() })?;
        fs::remove_dir_all(&self.config.log_directory)?;
        Ok(())
    }
}

/// The port in a container's log: `<time> stdout F listening on <address>:<port>`.
fn listening_port(log: &str) -> Option<u16> {
    let line = log.lines().find_map(|line| line.split_once(child::LISTENING))?;
    line.1.rsplit_once(':')?.1.parse().ok()
}

/// A container that listens.
pub struct Container {
    id: String,
    pub address: SocketAddr,
}

pub fn namespaces(spec: &Spec) -> NamespaceOption {
    let network = if spec.host_network { NamespaceMode::Node } else { NamespaceMode::Pod };
    let pid = if spec.watches { NamespaceMode::Node } else { NamespaceMode::Container };
    NamespaceOption { network: network.into(), pid: pid.into() }
}
