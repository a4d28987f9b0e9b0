//! gt-daemon itself as a pod of the node: what `deploy/base` says of it, handed to the runtime as a kubelet would, with the
//! runtime's own seccomp profile. AppArmor, which the DaemonSet turns off, is off in the node.

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use xtask::{
    deploy::container,
    sandbox::{Netns, eventually},
};

use super::{
    cri::{
        Capabilities, ContainerConfig, ContainerSecurity, ImageSpec, KeyValue, LinuxContainer, Mount, Number,
        Propagation, RuntimeDefault,
    },
    image::Content,
    kubelet::{self, Pod, Spec},
    node::Node,
    resets,
};
use crate::daemon::{self, Metrics};

const GT: Spec = Spec {
    namespace: "gt",
    name: "gt-daemon-x",
    uid: "6c1c7f2e-55a1-4f0e-9a57-9d8f6c1b2a31",
    burstable: true,
    host_network: false,
    watches: true,
};

const IMAGE: &str = "gt.test/gt-daemon:1";

/// `SECCOMP_MODE_FILTER`, as `/proc/PID/status` has it (proc(5)).
const FILTERED: &str = "2";

/// The DaemonSet's daemon counts what happens in a pod beside it, and has the rights that stand there and no others.
pub fn watches(node: &Node, peer: &Netns) -> Result<()> {
    let daemon_set = container::daemon_set()?;
    node.import_image(&Content {
        name: IMAGE,
        program: &daemon::binary(),
        place: "gt-daemon",
        environment: &[],
    })?;
    let mut own = Pod::start(node, GT)?;
    let (_, log) = own.run("gt-daemon", config(node, &daemon_set)?)?;
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let address = own.address(port(&daemon_set)?)?;
    eventually("gt-daemon to be ready", Duration::from_secs(60), || {
        get(peer, address, "/readyz").ok().filter(|(status, _)| *status == 200).map(drop)
    })
    .with_context(said)?;

    let mut gateway = Pod::start(node, super::GATEWAY)?;
    // It is asked as a sidecar is, inside its network namespace, and echoes what it is asked.
    gateway.serve("hc", 18180)?;
    let server = gateway.serve("server", 8080)?;
    let sum = |name: &str, labels: &[(&str, &str)]| -> Option<u64> {
        let (_, text) = get(peer, address, "/metrics").ok()?;
        Metrics::parse(&text).ok()?.sum(name, labels)
    };
    let pod = ("pod", super::GATEWAY.name);
    eventually("the pod's series", Duration::from_secs(20), || {
        sum("gt_connections_opened_total", &[pod]).map(drop)
    })
    .with_context(said)?;
    resets(peer, server.address, 3)?;
    let counted = || sum("gt_rst_total", &[pod, ("direction", "received"), ("class", "data")]);
    eventually("three RSTs to be counted", Duration::from_secs(10), || {
        counted().filter(|counted| *counted == 3).map(drop)
    })
    .with_context(|| format!("{:?}\n{}", counted(), said()))?;
    eventually("the sidecar to be asked", Duration::from_secs(20), || {
        sum("gt_poll_seconds_count", &[("source", "hc")]).filter(|asked| *asked > 0).map(drop)
    })
    .with_context(said)?;
    for refused in ["CAP_", "Operation not permitted", "Permission denied"] {
        ensure!(!said().contains(refused), "{refused} in the log:\n{}", said());
    }
    rights(&daemon_set)
}

fn get(peer: &Netns, address: SocketAddr, path: &str) -> Result<(u16, String)> {
    peer.enter(|| daemon::get(address, path))?
}

/// The port of the manifest's name `metrics`.
fn port(daemon_set: &Value) -> Result<u16> {
    let (_, container) = container::parts(daemon_set);
    let port = list(&container["ports"]).find(|port| port["name"] == "metrics");
    let number = port.and_then(|port| port["containerPort"].as_u64()).context("no port metrics")?;
    Ok(u16::try_from(number)?)
}

/// The container as a kubelet describes it to the runtime (pkg/kubelet/kuberuntime, `generateContainerConfig`). Pods come
/// from the node's directories, since there is no API.
fn config(node: &Node, daemon_set: &Value) -> Result<ContainerConfig> {
    let (_, container) = container::parts(daemon_set);
    let security = &container["securityContext"];
    let made = node.directory().join("made");
    let (logs, links) = (kubelet::logs(node), kubelet::links(node));
    for directory in [&made, &logs, &links] {
        fs::create_dir_all(directory)?;
    }
    let mounts = container::mounts(daemon_set, &made)?.into_iter().map(|mount| {
        let host = match mount.target.to_str() {
            Some("/var/log/pods") => &logs,
            Some("/var/log/containers") => &links,
            _ => &mount.source,
        };
        let follows = list(&container["volumeMounts"]).any(|said| {
            Path::new(text(&said["mountPath"])) == mount.target
                && said["mountPropagation"] == "HostToContainer"
        });
        let propagation = if follows { Propagation::HostToContainer } else { Propagation::Private };
        Mount {
            container_path: mount.target.display().to_string(),
            host_path: host.display().to_string(),
            readonly: !mount.writable,
            propagation: propagation.into(),
        }
    });
    let mut envs = vec![KeyValue { key: "GT_PODS".to_owned(), value: "kubelet".to_owned() }];
    for variable in list(&container["env"]) {
        envs.push(KeyValue { key: text(&variable["name"]).to_owned(), value: value(variable)?.to_owned() });
    }
    ensure!(
        security["seccompProfile"]["type"] == "RuntimeDefault",
        "another seccomp profile: ask for it here"
    );
    Ok(ContainerConfig {
        image: Some(ImageSpec { image: IMAGE.to_owned() }),
        command: texts(&container["command"]),
        args: texts(&container["args"]),
        envs,
        mounts: mounts.collect(),
        linux: Some(LinuxContainer {
            security_context: Some(ContainerSecurity {
                capabilities: Some(Capabilities {
                    add: texts(&security["capabilities"]["add"]),
                    drop: texts(&security["capabilities"]["drop"]),
                }),
                namespace_options: Some(kubelet::namespaces(&GT)),
                run_as_user: security["runAsUser"].as_i64().map(|value| Number { value }),
                readonly_rootfs: security["readOnlyRootFilesystem"] == true,
                no_new_privs: security["allowPrivilegeEscalation"] == false,
                seccomp: Some(RuntimeDefault {}),
            }),
        }),
        ..ContainerConfig::default()
    })
}

/// The value of a variable, of this node where it is one of the pod's own fields.
fn value(variable: &Value) -> Result<&str> {
    if let Some(value) = variable["value"].as_str() {
        return Ok(value);
    }
    match text(&variable["valueFrom"]["fieldRef"]["fieldPath"]) {
        "spec.nodeName" => Ok("a-node"),
        "status.hostIP" => Ok("192.0.2.7"),
        other => anyhow::bail!("{} is from {other:?}: say here what that is", text(&variable["name"])),
    }
}

/// What the kernel says that the daemon's process may do.
fn rights(daemon_set: &Value) -> Result<()> {
    let status = status_of_own()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim).with_context(|| format!("no {name} in {status}"))
    };
    ensure!(field("Seccomp")? == FILTERED, "no seccomp profile: {status}");
    ensure!(field("NoNewPrivs")? == "1", "it may gain rights: {status}");
    let (_, container) = container::parts(daemon_set);
    let granted = list(&container["securityContext"]["capabilities"]["add"]).count();
    for set in ["CapEff", "CapBnd"] {
        let bits = u64::from_str_radix(field(set)?, 16)?;
        ensure!(bits.count_ones() as usize == granted, "{set} {bits:#x}, and {granted} are granted");
    }
    Ok(())
}

/// The `/proc/PID/status` of the process in the pod's cgroup that is called gt-daemon.
fn status_of_own() -> Result<String> {
    let uids = [GT.uid.to_owned(), GT.uid.replace('-', "_")];
    for entry in fs::read_dir("/proc")?.flatten() {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        if read("comm").trim() == "gt-daemon" && uids.iter().any(|uid| read("cgroup").contains(uid)) {
            return Ok(read("status"));
        }
    }
    anyhow::bail!("no process gt-daemon in the pod's cgroup")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    list(value).map(|word| text(word).to_owned()).collect()
}
