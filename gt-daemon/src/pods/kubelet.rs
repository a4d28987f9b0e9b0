//! Pods from the kubelet's log directories: `<namespace>_<pod>_<uid>/<container>/`.
//!
//! The kubelet makes them when a pod starts and removes them after it is gone. Beside them,
//! `/var/log/containers/<pod>_<namespace>_<container>-<id>.log` tells a container's id.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use super::{Container, Pod};

/// The name of this source in metrics and logs.
pub const NAME: &str = "kubelet";

/// Why the directories could not be read.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    #[error(
        "the kubelet's log directory {directory} is not there; on a machine without a kubelet use --pods \
         static:FILE, in a container mount the host's directory"
    )]
    Missing { directory: PathBuf },
    #[error("cannot read the kubelet's log directory {directory}: {cause}; gt must run as root")]
    Unreadable { directory: PathBuf, cause: std::io::Error },
}

/// All pods with a log directory; entries of other shapes are passed over.
pub fn pods(directory: &Path) -> Result<Vec<Pod>, KubeletError> {
    let unreadable = |cause| KubeletError::Unreadable { directory: directory.to_owned(), cause };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(KubeletError::Missing { directory: directory.to_owned() });
        }
        Err(error) => return Err(unreadable(error)),
    };
    let ids = container_ids(&directory.with_file_name("containers"));
    let mut pods = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        let Some((namespace, pod, uid)) = name.to_str().and_then(parse) else { continue };
        let mut containers: Vec<_> = directories(&entry.path())
            .map(|container| {
                let key = (pod.to_owned(), namespace.to_owned(), container);
                let id = ids.get(&key).and_then(|(_, id)| id.clone());
                Container { name: key.2, id, cgroup: None }
            })
            .collect();
        containers.sort();
        pods.push(Pod {
            namespace: namespace.to_owned(),
            name: pod.to_owned(),
            uid: uid.to_owned(),
            containers,
            logs: Some(entry.path()),
            ..Pod::default()
        });
    }
    pods.sort();
    Ok(pods)
}

/// The directory of a pod's logs below the directory of all: `<namespace>_<pod>_<uid>`.
#[must_use]
pub fn logs(directory: &Path, namespace: &str, pod: &str, uid: &str) -> PathBuf {
    directory.join(format!("{namespace}_{pod}_{uid}"))
}

/// Splits `<namespace>_<pod>_<uid>`; an underscore occurs in none of the three.
fn parse(name: &str) -> Option<(&str, &str, &str)> {
    let mut parts = name.split('_');
    let parsed = (parts.next()?, parts.next()?, parts.next()?);
    let whole =
        parts.next().is_none() && !parsed.0.is_empty() && !parsed.1.is_empty() && !parsed.2.is_empty();
    whole.then_some(parsed)
}

/// Names of the directories in a directory; one that has just gone has none.
fn directories(path: &Path) -> impl Iterator<Item = String> {
    fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
}

/// Pod, namespace and container name.
type ContainerKey = (String, String, String);

/// Container ids by the links in `/var/log/containers`; empty where there are none. Of several links of one
/// container (a restarted one) the newest counts.
fn container_ids(directory: &Path) -> HashMap<ContainerKey, (std::time::SystemTime, Option<String>)> {
    let mut ids = HashMap::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((key, id)) = name.to_str().and_then(parse_link) else { continue };
        let made = fs::symlink_metadata(entry.path())
            .and_then(|metadata| metadata.modified())
            .unwrap_or(std::time::UNIX_EPOCH);
        let newest = ids.entry(key).or_insert((made, Some(id.clone())));
        if newest.0 < made {
            *newest = (made, Some(id));
        }
    }
    ids
}

fn parse_link(name: &str) -> Option<(ContainerKey, String)> {
    let mut parts = name.strip_suffix(".log")?.splitn(3, '_');
    let (pod, namespace, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let (container, id) = rest.rsplit_once('-')?;
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| ((pod.to_owned(), namespace.to_owned(), container.to_owned()), id.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises a tree as a kubelet leaves it, with things that are no pods in between.
    #[test]
    fn a_kubelets_tree() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("pods");
        let uid = "8ba3b3c8-6cb5-4d4f-9c3e-2a8f1a7d7f10";
        let id = "a".repeat(64);
        fs::create_dir_all(root.join(format!("service-a_igw-1_{uid}/hc"))).unwrap();
        fs::create_dir_all(root.join(format!("service-a_igw-1_{uid}/istio-proxy"))).unwrap();
        fs::write(root.join(format!("service-a_igw-1_{uid}/file")), "").unwrap();
        fs::create_dir_all(root.join("kube-system_etcd_0123456789abcdef0123456789abcdef")).unwrap();
        for odd in ["lost+found", "a_b", "a_b_c_d", "_b_c"] {
            fs::create_dir_all(root.join(odd)).unwrap();
        }
        let links = dir.path().join("containers");
        fs::create_dir(&links).unwrap();
        fs::write(links.join(format!("igw-1_service-a_istio-proxy-{id}.log")), "").unwrap();
        fs::write(links.join("igw-1_service-a_hc-short.log"), "").unwrap();

        let pods = pods(&root).unwrap();
        assert_eq!(pods.len(), 2);
        assert_eq!(pods[0].name, "etcd");
        let gateway = &pods[1];
        assert_eq!((gateway.namespace.as_str(), gateway.uid.as_str()), ("service-a", uid));
        let containers: Vec<_> =
            gateway.containers.iter().map(|c| (c.name.as_str(), c.id.as_deref())).collect();
        assert_eq!(gateway.logs, Some(root.join(format!("service-a_igw-1_{uid}"))));
        assert_eq!(containers, [("hc", None), ("istio-proxy", Some(id.as_str()))]);
    }

    /// Exercises a missing directory, so that the message says what to do.
    #[test]
    fn a_missing_tree() {
        let message = pods(Path::new("/nonexistent/pods")).unwrap_err().to_string();
        assert!(message.contains("/nonexistent/pods") && message.contains("--pods"), "{message}");
    }
}
