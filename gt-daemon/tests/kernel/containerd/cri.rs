//! A client of the Container Runtime Interface, as much of it as starting and stopping pods takes.
//!
//! Messages hold only the fields that are used; names and numbers are those of the interface's version 1
//! (k8s.io/cri-api, pkg/apis/runtime/v1/api.proto). Written out here, they need no protobuf compiler.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result};
use prost::Message;
use tonic::{
    Request,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

/// An emulated machine takes its time; a runtime that hangs must not hang the tests.
const LIMIT: Duration = Duration::from_secs(180);

/// A request, with the method that takes it and the answer it gets.
pub trait Call: Message + 'static {
    const METHOD: &'static str;
    type Answer: Message + Default + 'static;
}

/// A connection to a runtime's socket.
pub struct Cri {
    runtime: tokio::runtime::Runtime,
    channel: Channel,
}

impl Cri {
    /// Connects; an error when nobody serves the socket.
    pub fn connect(socket: &Path) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()))?.timeout(LIMIT);
        let channel = runtime
            .block_on(endpoint.connect())
            .with_context(|| format!("no runtime serves {}", socket.display()))?;
        Ok(Self { runtime, channel })
    }

    /// Makes one call and waits for its answer.
    pub fn call<C: Call>(&self, request: C) -> Result<C::Answer> {
        let mut client = Grpc::new(self.channel.clone());
        let path = C::METHOD.parse().with_context(|| format!("{} is no method's path", C::METHOD))?;
        let answer = self.runtime.block_on(async {
            client.ready().await?;
            let codec = ProstCodec::<C, C::Answer>::default();
            anyhow::Ok(client.unary(Request::new(request), path, codec).await?)
        });
        Ok(answer.with_context(|| C::METHOD.to_owned())?.into_inner())
    }
}

/// An answer of which nothing is read.
#[derive(Clone, PartialEq, Message)]
pub struct Nothing {}

/// `NamespaceMode`: whose namespace a pod has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum NamespaceMode {
    Pod = 0,
    Container = 1,
    Node = 2,
}

#[derive(Clone, PartialEq, Message)]
pub struct NamespaceOption {
    #[prost(enumeration = "NamespaceMode", tag = "1")]
    pub network: i32,
    #[prost(enumeration = "NamespaceMode", tag = "2")]
    pub pid: i32,
}

/// `SecurityProfile`, of the kind `RuntimeDefault`, which is 0 and so not sent.
#[derive(Clone, PartialEq, Message)]
pub struct RuntimeDefault {}

/// `LinuxSandboxSecurityContext`.
#[derive(Clone, PartialEq, Message)]
pub struct SandboxSecurity {
    #[prost(message, optional, tag = "1")]
    pub namespace_options: Option<NamespaceOption>,
    #[prost(message, optional, tag = "9")]
    pub seccomp: Option<RuntimeDefault>,
}

/// `LinuxPodSandboxConfig`.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxSandbox {
    #[prost(string, tag = "1")]
    pub cgroup_parent: String,
    #[prost(message, optional, tag = "2")]
    pub security_context: Option<SandboxSecurity>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(uint32, tag = "4")]
    pub attempt: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxConfig {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<PodSandboxMetadata>,
    #[prost(string, tag = "2")]
    pub hostname: String,
    #[prost(string, tag = "3")]
    pub log_directory: String,
    #[prost(message, optional, tag = "8")]
    pub linux: Option<LinuxSandbox>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RunPodSandbox {
    #[prost(message, optional, tag = "1")]
    pub config: Option<PodSandboxConfig>,
}

/// `RunPodSandboxResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct Sandbox {
    #[prost(string, tag = "1")]
    pub id: String,
}

impl Call for RunPodSandbox {
    const METHOD: &'static str = "/runtime.v1.RuntimeService/RunPodSandbox";
    type Answer = Sandbox;
}

#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxStatus {
    #[prost(string, tag = "1")]
    pub id: String,
}

/// `PodSandboxStatusResponse`, with the parts that lead to the address.
#[derive(Clone, PartialEq, Message)]
pub struct SandboxStatus {
    #[prost(message, optional, tag = "1")]
    pub status: Option<sandbox_status::Status>,
}

pub mod sandbox_status {
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    pub struct Status {
        #[prost(message, optional, tag = "5")]
        pub network: Option<Network>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub struct Network {
        #[prost(string, tag = "1")]
        pub ip: String,
    }
}

impl Call for PodSandboxStatus {
    const METHOD: &'static str = "/runtime.v1.RuntimeService/PodSandboxStatus";
    type Answer = SandboxStatus;
}

#[derive(Clone, PartialEq, Message)]
pub struct StopPodSandbox {
    #[prost(string, tag = "1")]
    pub id: String,
}

impl Call for StopPodSandbox {
    const METHOD: &'static str = "/runtime.v1.RuntimeService/StopPodSandbox";
    type Answer = Nothing;
}

#[derive(Clone, PartialEq, Message)]
pub struct RemovePodSandbox {
    #[prost(string, tag = "1")]
    pub id: String,
}

impl Call for RemovePodSandbox {
    const METHOD: &'static str = "/runtime.v1.RuntimeService/RemovePodSandbox";
    type Answer = Nothing;
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    /// How often the container has been made anew in its sandbox.
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct ImageSpec {
    #[prost(string, tag = "1")]
    pub image: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `Capability`, names without `CAP_`.
#[derive(Clone, PartialEq, Message)]
pub struct Capabilities {
    #[prost(string, repeated, tag = "1")]
    pub add: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub drop: Vec<String>,
}

/// `Int64Value`.
#[derive(Clone, PartialEq, Message)]
pub struct Number {
    #[prost(int64, tag = "1")]
    pub value: i64,
}

/// `LinuxContainerSecurityContext`.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerSecurity {
    #[prost(message, optional, tag = "1")]
    pub capabilities: Option<Capabilities>,
    #[prost(message, optional, tag = "3")]
    pub namespace_options: Option<NamespaceOption>,
    #[prost(message, optional, tag = "5")]
    pub run_as_user: Option<Number>,
    #[prost(bool, tag = "7")]
    pub readonly_rootfs: bool,
    #[prost(bool, tag = "11")]
    pub no_new_privs: bool,
    #[prost(message, optional, tag = "15")]
    pub seccomp: Option<RuntimeDefault>,
}

/// `MountPropagation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Propagation {
    Private = 0,
    HostToContainer = 1,
}

#[derive(Clone, PartialEq, Message)]
pub struct Mount {
    #[prost(string, tag = "1")]
    pub container_path: String,
    #[prost(string, tag = "2")]
    pub host_path: String,
    #[prost(bool, tag = "3")]
    pub readonly: bool,
    #[prost(enumeration = "Propagation", tag = "5")]
    pub propagation: i32,
}

/// `LinuxContainerConfig`.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxContainer {
    #[prost(message, optional, tag = "2")]
    pub security_context: Option<ContainerSecurity>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "2")]
    pub image: Option<ImageSpec>,
    /// In place of the image's entry point.
    #[prost(string, repeated, tag = "3")]
    pub command: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub args: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub envs: Vec<KeyValue>,
    #[prost(message, repeated, tag = "7")]
    pub mounts: Vec<Mount>,
    /// Below the sandbox's `log_directory`.
    #[prost(string, tag = "11")]
    pub log_path: String,
    #[prost(message, optional, tag = "15")]
    pub linux: Option<LinuxContainer>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CreateContainer {
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<ContainerConfig>,
    #[prost(message, optional, tag = "3")]
    pub sandbox_config: Option<PodSandboxConfig>,
}

/// `CreateContainerResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct Container {
    #[prost(string, tag = "1")]
    pub id: String,
}

impl Call for CreateContainer {
    const METHOD: &'static str = "/runtime.v1.RuntimeService/CreateContainer";
    type Answer = Container;
}

#[derive(Clone, PartialEq, Message)]
pub struct StartContainer {
    #[prost(string, tag = "1")]
    pub id: String,
}

impl Call for StartContainer {
    const METHOD: &'static str = "/runtime.v1.RuntimeService/StartContainer";
    type Answer = Nothing;
}

/// Without a timeout: SIGKILL at once.
#[derive(Clone, PartialEq, Message)]
pub struct StopContainer {
    #[prost(string, tag = "1")]
    pub id: String,
}

impl Call for StopContainer {
    const METHOD: &'static str = "/runtime.v1.RuntimeService/StopContainer";
    type Answer = Nothing;
}

/// `ImageStatusRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ImageStatus {
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
}

/// `ImageStatusResponse`: whether the runtime has the image.
#[derive(Clone, PartialEq, Message)]
pub struct Image {
    #[prost(message, optional, tag = "1")]
    pub image: Option<Nothing>,
}

impl Call for ImageStatus {
    const METHOD: &'static str = "/runtime.v1.ImageService/ImageStatus";
    type Answer = Image;
}
