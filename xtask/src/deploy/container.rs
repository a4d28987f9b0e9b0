//! The container of a DaemonSet, without a runtime: unshare, chroot and setpriv do what one would do. For tests and for the lab.
//!
//! Owns: what of the manifest the container gets: its command, capabilities, mounts and variables. Refuses: seccomp and AppArmor,
//! which are the runtime's own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::manifests;

/// Makes the root `$1` of the program `$2`, with the mounts that follow up to `--`, three words each: source, target, `ro` or
/// `rw`. The last arguments become the program. As in the image there is that program alone; the host's are there for setpriv.
/// /sys is there as in every container, without the kernel's types, which a runtime may hide.
const ENTER: &str = r#"
set -eu
root=$1; program=$2; shift 2
mount -t tmpfs none "$root"
mkdir -p "$root/proc" "$root/sys" "$root/usr"
ln -s usr/bin usr/lib usr/lib64 "$root/"
cp "$program" "$root/gt-daemon"
mount --rbind /proc "$root/proc"
mount -t sysfs -o ro none "$root/sys"
mount -t tmpfs -o ro none "$root/sys/kernel/btf"
mount --rbind -o ro /usr "$root/usr"
while [ "$1" != -- ]; do
    mkdir -p "$root/$2"
    mount --rbind "$1" "$root/$2"
    mount -o "remount,bind,$3" "$root/$2"
    shift 3
done
shift
mount -o remount,ro "$root"
exec chroot "$root" "$@"
"#;

/// A directory of the host that the container sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub source: PathBuf,
    pub target: PathBuf,
    pub writable: bool,
}

/// gt-daemon's DaemonSet as it stands in `deploy/base`.
pub fn daemon_set() -> Result<Value> {
    let file = manifests::directory().join("base/daemonset.yaml");
    let objects = manifests::read(&file)?;
    let found = manifests::of_kind(&objects, "DaemonSet").next().cloned();
    found.with_context(|| format!("{} has no DaemonSet", file.display()))
}

/// The spec of the pods of a DaemonSet, and their first container.
#[must_use]
pub fn parts(daemon_set: &Value) -> (&Value, &Value) {
    let pod = &daemon_set["spec"]["template"]["spec"];
    (pod, &pod["containers"][0])
}

/// The container's mounts. What a kubelet would make if it is not there is made below `made`, by the volume's name.
pub fn mounts(daemon_set: &Value, made: &Path) -> Result<Vec<Mount>> {
    let (pod, container) = parts(daemon_set);
    list(&container["volumeMounts"])
        .map(|mount| {
            let volume = list(&pod["volumes"]).find(|volume| volume["name"] == mount["name"]);
            let host = &volume.with_context(|| format!("no volume is called {}", mount["name"]))?["hostPath"];
            let source = if host["type"] == "Directory" {
                PathBuf::from(text(&host["path"]))
            } else {
                let directory = made.join(text(&mount["name"]));
                fs::create_dir_all(&directory)
                    .with_context(|| format!("cannot make {}", directory.display()))?;
                directory
            };
            Ok(Mount {
                source,
                target: text(&mount["mountPath"]).into(),
                writable: mount["readOnly"] != true,
            })
        })
        .collect()
}

/// What the container runs, up to the program's own arguments, with the variables that have a value. Capabilities in `missing`
/// (`SYS_ADMIN`) are left out. `root` is an empty directory; what is mounted there goes with the process.
pub fn command(
    daemon_set: &Value,
    root: &Path,
    program: &Path,
    mounts: &[Mount],
    missing: &[&str],
) -> Command {
    let (_, container) = parts(daemon_set);
    let mut command = Command::new("unshare");
    // What is unmounted outside, such as a pod's namespace, is let go here too; nothing is mounted outside.
    command.args(["--mount", "--propagation", "slave", "sh", "-c", ENTER, "sh"]).arg(root).arg(program);
    for mount in mounts {
        command.arg(&mount.source).arg(&mount.target).arg(if mount.writable { "rw" } else { "ro" });
    }
    let added = list(&container["securityContext"]["capabilities"]["add"]).map(text);
    let kept = added.filter(|name| !missing.contains(name)).map(|name| format!(",+{}", name.to_lowercase()));
    let bounding = format!("-all{}", kept.collect::<String>());
    command.args([
        "--",
        "/usr/bin/setpriv",
        "--no-new-privs",
        "--inh-caps=-all",
        "--bounding-set",
        &bounding,
    ]);
    command.args(list(&container["command"]).map(text));
    for variable in list(&container["env"]) {
        if let Some(value) = variable["value"].as_str() {
            command.env(text(&variable["name"]), value);
        }
    }
    command
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::workdir::Workdir;

    /// Exercises the manifest, so that what is granted here is what stands there, and what is missing is left out.
    #[test]
    fn as_the_manifest_says() {
        let daemon_set = daemon_set().unwrap();
        let made = Workdir::create().unwrap();
        let mounts = mounts(&daemon_set, made.path()).unwrap();
        let at = |target: &str| mounts.iter().find(|mount| mount.target == Path::new(target)).unwrap();
        assert_eq!(at("/host/sys/fs/cgroup").source, Path::new("/sys/fs/cgroup"));
        assert!(!at("/var/log/pods").writable && at("/var/lib/gt").writable);
        assert_eq!(at("/var/lib/gt").source, made.path().join("records"));
        let said = |missing: &[&str]| {
            let command = command(&daemon_set, Path::new("/r"), Path::new("/p"), &mounts, missing);
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert!(
            said(&[])
                .ends_with("--bounding-set -all,+bpf,+perfmon,+sys_admin,+sys_ptrace,+net_admin /gt-daemon")
        );
        assert!(!said(&["SYS_ADMIN"]).contains("sys_admin"));
    }
}
