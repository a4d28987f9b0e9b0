//! A worker node: its namespace, its directory of logs, and its own gt-daemon, in the container that the DaemonSet makes.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result};

use super::Programs;
use crate::{
    sandbox::Netns,
    stage::{api::Api, daemon::Daemon, envoy::text},
};

const RECORDS: &str = "record";

#[derive(Debug)]
pub(super) struct Worker {
    pub(super) daemon: Daemon,
    pub(super) netns: Arc<Netns>,
    /// Its `/var/log`.
    pub(super) node: PathBuf,
    /// What the API server calls it.
    pub(super) name: String,
}

impl Worker {
    /// Starts its daemon, which asks `api` for the worker's own pods, and the load balancer on `lb` about their servers while one
    /// of them drains. `node` is to be the worker's `/var/log`.
    pub(super) fn start(
        netns: &Arc<Netns>,
        name: &str,
        node: PathBuf,
        api: &Api,
        lb: &Path,
        programs: &Programs,
    ) -> Result<Self> {
        let pods = node.join("pods");
        fs::create_dir_all(&pods).with_context(|| format!("cannot make {}", pods.display()))?;
        let kubeconfig = node.join("kubeconfig");
        api.write_kubeconfig(&kubeconfig)?;
        let records = node.join(RECORDS);
        let lb_directory = lb.parent().context("the load balancer's socket is in no directory")?;
        let lb = format!("unix:{}", lb.display());
        let arguments = [
            "--log",
            "info",
            "--log-format",
            "text",
            "--pods",
            "api",
            "--kubeconfig",
            text(&kubeconfig)?,
            "--node-name",
            name,
            "--record",
            text(&records)?,
            "--lb",
            &lb,
        ];
        let daemon = Daemon::start_on_node(&programs.daemon, &arguments, &node, &[lb_directory])?;
        Ok(Self { daemon, netns: Arc::clone(netns), node, name: name.to_owned() })
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
