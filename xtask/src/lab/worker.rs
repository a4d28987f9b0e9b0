//! A worker node: its namespace, its directory of logs, and its own gt-daemon, as a DaemonSet has it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result};

use super::Programs;
use crate::{
    sandbox::Netns,
    stage::{daemon::Daemon, envoy::text},
};

const RECORDS: &str = "record";

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) daemon: Daemon,
    pub(super) netns: Arc<Netns>,
    /// What stands for its `/var/log`.
    pub(super) node: PathBuf,
}

impl Worker {
    /// Starts its daemon, which knows of its own pods only, and asks the load balancer on `lb` about the servers `servers` while one of
    /// them drains.
    pub(super) fn start(
        netns: &Arc<Netns>,
        node: PathBuf,
        lb: &Path,
        servers: &str,
        programs: &Programs,
    ) -> Result<Self> {
        let pods = node.join("pods");
        fs::create_dir_all(&pods).with_context(|| format!("cannot make {}", pods.display()))?;
        let source = format!("kubelet:{}", pods.display());
        let records = node.join(RECORDS);
        let lb = format!("unix:{}", lb.display());
        let arguments = [
            "--log",
            "info",
            "--pods",
            &source,
            "--record",
            text(&records)?,
            "--lb",
            &lb,
            "--lb-server",
            servers,
        ];
        let daemon = Daemon::start(&programs.daemon, &arguments, &node)?;
        Ok(Self { daemon, netns: Arc::clone(netns), node })
    }

    /// Where its daemon keeps the records of drains.
    pub(super) fn records(&self) -> PathBuf {
        self.node.join(RECORDS)
    }

    /// What the daemon wrote.
    pub(super) fn log(&self) -> &Path {
        self.daemon.stderr()
    }
}
