//! Pods from a TOML file, for machines without a kubelet (an LB's host, a test).
//!
//! ```toml
//! [[pod]]
//! namespace = "lb"
//! name = "haproxy"
//! cgroup = "system.slice/haproxy.service"   # below the cgroup root, or absolute
//! netns = "/run/netns/lb"                   # optional
//! uid = "lb-haproxy"                        # optional, default: the name
//! health_ports = [8404]                      # optional, beyond the daemon's --health-ports
//! admin_ports = []                           # optional, beyond the daemon's --admin-ports
//! protocol = "http1"                         # optional: http1, http2 or tls, on all its connections
//! hc_port = 18180                            # optional: its health sidecar is asked there
//! envoy_port = 15000                         # optional: its Envoy's admin server is asked there
//! logs = "/var/log/pods/lb_haproxy_1"        # optional: <container>/0.log and so on below it
//! [[pod.container]]                         # optional
//! name = "haproxy"
//! cgroup = "system.slice/haproxy.service/main"
//! ```

use std::{
    fs::File,
    io::{self, Read as _},
    num::NonZeroU16,
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    path::{Component, Path, PathBuf},
};

use nix::libc::O_NONBLOCK;
use serde::Deserialize;

use super::{Class, Container, Declared, Pod};

/// The name of this source in metrics and logs.
pub const NAME: &str = "static";

/// Why the file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum StaticFileError {
    #[error("cannot read the pods file {file}: {cause}; check the path given to --pods static:")]
    Unreadable { file: PathBuf, cause: io::Error },
    #[error("the pods file {file} is not as it should be: {message}\nsee docs/pods-file.md for its format")]
    Malformed { file: PathBuf, message: String },
    #[error("the pods file {file} names pod {pod} but neither its cgroup nor its netns; give one of them")]
    Nowhere { file: PathBuf, pod: String },
    #[error("the pods file {file} names uid {uid} twice; each pod needs its own")]
    Twice { file: PathBuf, uid: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    #[serde(default)]
    pod: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    namespace: String,
    name: String,
    uid: Option<String>,
    cgroup: Option<PathBuf>,
    netns: Option<PathBuf>,
    #[serde(default)]
    health_ports: Vec<u16>,
    #[serde(default)]
    admin_ports: Vec<u16>,
    protocol: Option<Declared>,
    hc_port: Option<NonZeroU16>,
    envoy_port: Option<NonZeroU16>,
    logs: Option<PathBuf>,
    #[serde(default)]
    container: Vec<ContainerEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContainerEntry {
    name: String,
    cgroup: PathBuf,
}

/// The pods that the file names now.
pub fn pods(file: &Path) -> Result<Vec<Pod>, StaticFileError> {
    parse(file, &read(file)?)
}

/// Reads the file anew.
pub fn read(file: &Path) -> Result<String, StaticFileError> {
    let unreadable = |cause| StaticFileError::Unreadable { file: file.to_owned(), cause };
    // A FIFO or a terminal would hold the daemon up.
    let mut text = String::new();
    let mut opened = File::options().read(true).custom_flags(O_NONBLOCK).open(file).map_err(unreadable)?;
    if opened.metadata().map_err(unreadable)?.file_type().is_fifo() {
        return Err(unreadable(io::Error::other("this is a FIFO, not a file")));
    }
    opened.read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

/// The pods that its text names.
pub fn parse(file: &Path, text: &str) -> Result<Vec<Pod>, StaticFileError> {
    let parsed: Content = toml::from_str(text).map_err(|error| StaticFileError::Malformed {
        file: file.to_owned(),
        message: error.to_string().trim_end().to_owned(),
    })?;
    let mut pods: Vec<Pod> = Vec::with_capacity(parsed.pod.len());
    for entry in parsed.pod {
        if entry.cgroup.is_none() && entry.netns.is_none() {
            return Err(StaticFileError::Nowhere { file: file.to_owned(), pod: entry.name });
        }
        let uid = entry.uid.unwrap_or_else(|| entry.name.clone());
        for (what, value) in [("namespace", &entry.namespace), ("name", &entry.name), ("uid", &uid)] {
            if value.is_empty() || value.chars().any(char::is_control) {
                let message = format!("{what} {value:?} is empty or holds control characters");
                return Err(StaticFileError::Malformed { file: file.to_owned(), message });
            }
        }
        let containers = entry.container.iter().map(|container| &container.cgroup);
        for path in entry.cgroup.iter().chain(containers) {
            let leads_out = path.components().any(|part| part == Component::ParentDir);
            if leads_out || path.components().all(|part| part == Component::RootDir) {
                let message = format!("cgroup {path:?} is the root, or leads out by ..; name the pod's own");
                return Err(StaticFileError::Malformed { file: file.to_owned(), message });
            }
        }
        if pods.iter().any(|pod| pod.uid == uid) {
            return Err(StaticFileError::Twice { file: file.to_owned(), uid });
        }
        let [hc_port, envoy_port] = [entry.hc_port, entry.envoy_port].map(|port| port.map(NonZeroU16::get));
        pods.push(Pod {
            namespace: entry.namespace,
            name: entry.name,
            uid,
            containers: entry
                .container
                .into_iter()
                .map(|container| Container { name: container.name, id: None, cgroup: Some(container.cgroup) })
                .collect(),
            cgroup: entry.cgroup,
            netns: entry.netns,
            ports: entry
                .health_ports
                .into_iter()
                .chain(hc_port)
                .map(|port| (port, Class::Health))
                .chain(entry.admin_ports.into_iter().chain(envoy_port).map(|port| (port, Class::Admin)))
                .collect(),
            protocol: entry.protocol,
            hc_port,
            envoy_port,
            logs: entry.logs,
            ..Pod::default()
        });
    }
    Ok(pods)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        parse(Path::new("pods.toml"), text).unwrap_err().to_string()
    }

    /// Exercises a whole file and an empty one.
    #[test]
    fn files() {
        let pods = parse(
            Path::new("pods.toml"),
            "[[pod]]\nnamespace='a'\nname='b'\ncgroup='x/y'\n[[pod.container]]\nname='c'\ncgroup='x/y/z'\n",
        )
        .unwrap();
        assert_eq!(pods[0].uid, "b");
        assert_eq!(pods[0].containers[0].cgroup.as_deref(), Some(Path::new("x/y/z")));
        let declared = parse(
            Path::new("pods.toml"),
            "[[pod]]\nnamespace='a'\nname='b'\nnetns='x'\nhealth_ports=[1]\nadmin_ports=[2]\nprotocol='http2'\n",
        )
        .unwrap();
        assert_eq!(declared[0].ports, [(1, Class::Health), (2, Class::Admin)]);
        assert_eq!(declared[0].protocol, Some(Declared::Http2));
        let read = parse(
            Path::new("pods.toml"),
            "[[pod]]\nnamespace='a'\nname='b'\nnetns='x'\nhc_port=3\nenvoy_port=4\nlogs='/l'\n",
        )
        .unwrap();
        assert_eq!((read[0].hc_port, read[0].envoy_port), (Some(3), Some(4)));
        assert_eq!(read[0].ports, [(3, Class::Health), (4, Class::Admin)]);
        assert_eq!(read[0].logs.as_deref(), Some(Path::new("/l")));
        assert!(parse(Path::new("pods.toml"), "").unwrap().is_empty());
    }

    /// Exercises wrong files, so that each message names the file and the fault.
    #[test]
    fn faults() {
        for (text, fault) in [
            ("[[pod]]\nname='b'\n", "namespace"),
            ("[[pod]]\nnamespace='a'\nname='b'\n", "neither its cgroup nor its netns"),
            ("[[pod]]\nnamespace='a'\nname='b'\ncgroop='x'\n", "cgroop"),
            ("[[pod]]\nnamespace='a'\nname='b'\nnetns='x'\nprotocol='spdy'", "spdy"),
            ("[[pod]]\nnamespace='a'\nname='b'\nnetns='x'\nhc_port=0", "hc_port"),
            ("[[pod]]\nnamespace=''\nname='b'\nnetns='x'", "namespace"),
            ("[[pod]]\nnamespace='a'\nname='b'\ncgroup='/'", "cgroup"),
            ("[[pod]]\nnamespace='a'\nname='b'\ncgroup='x/../..'", "cgroup"),
            ("not toml", "expected"),
            (
                "[[pod]]\nnamespace='a'\nname='b'\nnetns='x'\n[[pod]]\nnamespace='a'\nname='b'\nnetns='y'",
                "twice",
            ),
        ] {
            let message = message(text);
            assert!(message.contains("pods.toml") && message.contains(fault), "{message}");
        }
        let unreadable = pods(Path::new("/nonexistent/pods.toml")).unwrap_err().to_string();
        assert!(unreadable.contains("/nonexistent/pods.toml"));
    }
}
