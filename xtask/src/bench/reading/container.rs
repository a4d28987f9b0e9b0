//! A container that runs, and processes that are started in it, as a node starts those of `kubectl exec`.
//!
//! Left out, so that what is measured is less than the whole: kubectl, the API server, the kubelet, containerd and its
//! shim, and the seccomp profile that most runtimes add.

use std::{
    fs,
    os::unix::{fs::symlink, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::sandbox::{Netns, run};

/// A container by runc, in a network namespace that is there already; gone on drop.
#[derive(Debug)]
pub(super) struct Container {
    state: PathBuf,
    name: String,
}

impl Container {
    /// Starts it. It has this machine's `/usr`, read-only.
    pub(super) fn start(netns: &Netns, workdir: &Path) -> Result<Self> {
        let bundle = workdir.join("bundle");
        let root = bundle.join("rootfs");
        for name in ["usr", "proc", "dev"] {
            let directory = root.join(name);
            fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        }
        for name in ["bin", "lib", "lib64"] {
            symlink(Path::new("usr").join(name), root.join(name))
                .with_context(|| format!("cannot make {name} in {}", root.display()))?;
        }
        let container = Self { state: workdir.join("runc"), name: format!("gt-bench-{}", process::id()) };
        // What runc itself proposes, so that its own defaults are in it.
        run(Command::new("runc").args(["spec", "--bundle"]).arg(&bundle))?;
        let file = bundle.join("config.json");
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let spec = serde_json::from_str(&text).with_context(|| format!("cannot read {}", file.display()))?;
        fs::write(&file, container.adapt(spec, netns).to_string())
            .with_context(|| format!("cannot write {}", file.display()))?;
        let log = workdir.join("runc.log");
        let mut command = container.runc();
        command
            .arg("--log")
            .arg(&log)
            .args(["run", "--detach", "--bundle"])
            .arg(&bundle)
            .arg(&container.name)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // The container keeps it open: a pipe would have no end.
            .stderr(Stdio::null());
        let status = command.status().context("cannot start runc: `cargo xtask setup` installs it")?;
        if !status.success() {
            let log = fs::read_to_string(&log).unwrap_or_default();
            bail!("runc could not start a container ({status}); its log:\n{log}");
        }
        Ok(container)
    }

    /// The network namespace of the gateway; nothing from `/sys`, and nobody at a terminal.
    fn adapt(&self, mut spec: Value, netns: &Netns) -> Value {
        spec["process"]["terminal"] = json!(false);
        spec["process"]["args"] = json!(["/usr/bin/sleep", "infinity"]);
        spec["linux"]["cgroupsPath"] = json!(format!("/{}", self.name));
        if let Some(namespaces) = spec["linux"]["namespaces"].as_array_mut() {
            namespaces.retain(|namespace| namespace["type"] != "network");
            namespaces.push(json!({"type": "network", "path": netns.path()}));
        }
        if let Some(mounts) = spec["mounts"].as_array_mut() {
            mounts.retain(|mount| !mount["destination"].as_str().is_some_and(|at| at.starts_with("/sys")));
            mounts.push(json!({
                "destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"],
            }));
        }
        spec
    }

    /// A command that starts `program` in the container and ends with it.
    pub(super) fn exec(&self, program: &str) -> Command {
        let mut command = self.runc();
        command.args(["exec", &self.name, program]);
        command
    }

    fn runc(&self) -> Command {
        let mut command = Command::new("runc");
        command.arg("--root").arg(&self.state).process_group(0);
        command
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // The state is not there when the start failed.
        if self.state.exists()
            && let Err(error) = run(self.runc().args(["delete", "--force", &self.name]))
        {
            eprintln!("left behind: container {}: {error:#}", self.name);
        }
    }
}
