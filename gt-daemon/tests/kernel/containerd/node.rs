//! A node: Debian's containerd with its CRI plugin, and systemd where systemd is to make the cgroups.
//!
//! Owns: everything containerd starts, mounts or writes. All of it is in a pid namespace, a mount namespace and a
//! directory of its own, and gone when the node is dropped. Its network namespace is the machine's, so that
//! a pod in the host's network is one; sockets of such pods are on loopback.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use nix::sched::{CloneFlags, unshare};
use xtask::sandbox::{Netns, Process, eventually, run};

use super::{
    cri::{Cri, ImageSpec, ImageStatus},
    hierarchies::{Controllers, Everywhere},
    image::{self, Content},
};

/// The first three bytes of all pods' addresses; the peer has the last byte 1.
const NETWORK: &str = "10.79.0";

const SYSTEMD: &str = "/lib/systemd/systemd";

/// How long a start may take: seconds on a machine, ten times as long on an emulated one.
const START: Duration = Duration::from_secs(120);

/// Who makes the cgroups, as the kubelet's `cgroupDriver` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    Cgroupfs,
    Systemd,
}

impl Driver {
    pub const ALL: [Self; 2] = [Self::Cgroupfs, Self::Systemd];

    pub fn name(self) -> &'static str {
        match self {
            Self::Cgroupfs => "cgroupfs",
            Self::Systemd => "systemd",
        }
    }

    /// Why there can be no node here; `None` when one can be tried.
    pub fn unavailable(self) -> Option<String> {
        if !cfg!(target_feature = "crt-static") {
            return Some("this program is not static, and runs in no image: use cargo xtask test".to_owned());
        }
        let on_path = |program: &&str| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
        };
        let programs = ["containerd", "containerd-shim-runc-v2", "ctr", "runc", "nsenter", "unshare"];
        if let Some(missing) = programs.iter().find(|program| !on_path(program)) {
            return Some(format!("{missing} is not installed"));
        }
        if self == Self::Systemd && !Path::new(SYSTEMD).is_file() {
            return Some(format!("{SYSTEMD} is not there"));
        }
        (!has_overlayfs())
            .then(|| "this kernel has no overlayfs, by which containers share an image".to_owned())
    }
}

/// Whether the kernel has it, or a module of it that can be loaded.
fn has_overlayfs() -> bool {
    let listed = || {
        let filesystems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        filesystems.lines().any(|line| line.ends_with("\toverlay"))
    };
    listed() || run(Command::new("modprobe").arg("overlay")).is_ok_and(|_| listed())
}

/// A running containerd.
pub struct Node {
    pub cri: Cri,
    pub driver: Driver,
    _first: Process,
    /// Below which systemd's cgroups are.
    _cgroups: Option<Everywhere>,
    _controllers: Option<Controllers>,
    directory: tempfile::TempDir,
}

impl Node {
    /// Starts a node whose pods are joined with `peer`; an error when nobody serves its socket in the end.
    pub fn start(driver: Driver, peer: &Netns) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        prepare(directory.path(), driver, peer)?;
        let controllers = Controllers::turn_on();
        let cgroup = format!("gt-test-{}-node", std::process::id());
        let cgroups = (driver == Driver::Systemd).then(|| Everywhere::create(&cgroup)).transpose()?;
        let mut command = Command::new("/bin/sh");
        command.arg(directory.path().join("node.sh")).arg(directory.path());
        if driver == Driver::Systemd {
            command.arg(&cgroup);
        }
        let mut first = first_process(command.stdin(Stdio::null()))?;
        let socket = directory.path().join("socket");
        let cri = eventually("containerd to serve its socket", START, || {
            if let Ok(Some(status)) = first.child().try_wait() {
                return Some(Err(anyhow::anyhow!("the node's first process ended with {status}")));
            }
            Cri::connect(&socket).ok().map(Ok)
        });
        let cri = cri.and_then(|cri| cri).with_context(|| end_of_log(directory.path()))?;
        Ok(Self { cri, driver, _first: first, _cgroups: cgroups, _controllers: controllers, directory })
    }

    /// The directory in which everything of the node lies.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The end of containerd's log.
    pub fn log(&self) -> String {
        end_of_log(self.directory())
    }

    /// Gives containerd the image of all pods, with this program in it.
    pub fn import(&self) -> Result<()> {
        let program = std::env::current_exe()?;
        let environment = [crate::child::pause()];
        self.import_image(&Content {
            name: image::NAME,
            program: &program,
            place: "program",
            environment: &environment,
        })
    }

    /// Gives containerd an image.
    pub fn import_image(&self, content: &Content) -> Result<()> {
        let archive = self.directory().join("image.tar");
        image::write(content, &archive)?;
        let mut command = Command::new("ctr");
        command.arg("--address").arg(self.directory().join("socket"));
        command.args(["--namespace", "k8s.io", "images", "import", "--snapshotter", "overlayfs"]);
        run(command.arg(&archive))?;
        fs::remove_file(&archive)?;
        // The plugin hears of it by an event.
        eventually("the image", START, || {
            let image = Some(ImageSpec { image: content.name.to_owned() });
            self.cri.call(ImageStatus { image }).ok()?.image.map(drop)
        })
    }
}

/// Starts a command as the first process of a pid namespace, in a mount namespace of its own. Once it has been
/// killed and waited for, the kernel has ended all other processes of the pid namespace.
fn first_process(command: &mut Command) -> Result<Process> {
    // A thread of its own, since it cannot come back to the machine's namespaces.
    thread::scope(|scope| {
        scope
            .spawn(|| {
                unshare(CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS)
                    .context("cannot make pid and mount namespaces: root is needed")?;
                Process::start("node", command)
            })
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Everything the node's script and containerd read.
fn prepare(directory: &Path, driver: Driver, peer: &Netns) -> Result<()> {
    for name in ["root", "cni", "units"] {
        fs::create_dir(directory.join(name))?;
    }
    write(directory, "config.toml", &config(directory, driver))?;
    write(directory, "node.sh", include_str!("node.sh"))?;
    write(directory, "systemd.sh", include_str!("systemd.sh"))?;
    write(directory, "units/node.target", "[Unit]\nWants=containerd.service\n")?;
    write(directory, "units/containerd.service", &unit(directory))?;
    let list = r#"{"cniVersion":"0.4.0","name":"gt-test","plugins":[{"type":"gt-test"}]}"#;
    write(directory, "cni/10-gt-test.conflist", list)?;
    write(directory, "cni/settings", &format!("peer={} network={NETWORK}\n", peer.name()))?;
    for name in ["cni/loopback", "cni/gt-test"] {
        let plugin = write(directory, name, include_str!("cni.sh"))?;
        fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn write(directory: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// containerd's configuration (containerd 1.6, docs/cri/config.md): the defaults, with all paths in the
/// directory. One image serves sandboxes and containers. Not every machine lets root lower an `oom_score_adj`.
fn config(directory: &Path, driver: Driver) -> String {
    let place = directory.display();
    let systemd = driver == Driver::Systemd;
    let image = image::NAME;
    format!(
        r#"version = 2
root = "{place}/lib"
state = "{place}/state"
[grpc]
address = "{place}/socket"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image}"
disable_apparmor = true
netns_mounts_under_state_dir = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{place}/cni"
conf_dir = "{place}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = {systemd}
"#
    )
}

/// As Debian's containerd.service, where it matters here.
fn unit(directory: &Path) -> String {
    let place = directory.display();
    let log = format!("file:{place}/containerd.log");
    format!(
        "[Unit]\nDefaultDependencies=no\n[Service]\nType=notify\nDelegate=yes\nKillMode=process\n\
         ExecStart=containerd --config {place}/config.toml\nStandardOutput={log}\nStandardError={log}\n"
    )
}

fn end_of_log(directory: &Path) -> String {
    let text = fs::read_to_string(directory.join("containerd.log")).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    format!("the end of containerd's log:\n{}", lines[lines.len().saturating_sub(12)..].join("\n"))
}
