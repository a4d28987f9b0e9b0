//! `cargo xtask gateway`: whether what a gateway's pods are told keeps the runbook's rules.
//!
//! Owns: where the numbers stand in a manifest or in values of Istio's chart, and what else must be right beside them.
//! Refuses: the arithmetic, which is `gt-hc check`'s.

mod workload;

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::manifests;
use crate::{artifacts, setup, setup::Need};
use workload::Workload;

/// What is judged, and with what.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// A file with Deployments or with values of Istio's chart `gateway`; `-` for stdin, as after `helm template ..|` or
    /// `kubectl kustomize ..|`
    file: PathBuf,
    /// gt-hc to compute with, instead of building one
    #[arg(long, value_name = "FILE")]
    hc: Option<PathBuf>,
}

/// What became of one gateway.
#[derive(Debug)]
pub struct Judgement {
    pub name: String,
    /// What `gt-hc check` says.
    pub report: String,
    /// What is wrong, or cannot be told; empty when all is well.
    pub faults: Vec<String>,
}

/// Judges every gateway in the file; an error when any is wrong.
pub fn run(options: &Options) -> Result<()> {
    let documents = if options.file == Path::new("-") {
        manifests::parse(&io::read_to_string(io::stdin()).context("cannot read stdin")?)
            .context("stdin is no YAML")?
    } else {
        manifests::read(&options.file)?
    };
    let hc = match &options.hc {
        Some(file) => file.canonicalize().with_context(|| format!("cannot find {}", file.display()))?,
        None => {
            setup::ensure(&[Need::Build])?;
            artifacts::release(&["gt-hc"])?.join("gt-hc")
        }
    };
    let judgements = judge(&hc, &documents)?;
    let mut faults = 0;
    for Judgement { name, report, faults: found } in &judgements {
        let wrong: String = found.iter().map(|fault| format!("WRONG    {fault}\n")).collect();
        let text = format!("{name}\n{report}{wrong}");
        io::stdout().write_all(text.as_bytes()).context("cannot write to stdout")?;
        faults += found.len();
    }
    if faults > 0 {
        bail!("{faults} things are wrong with {}", options.file.display());
    }
    Ok(())
}

/// Judges every workload that has a container `hc`, and the services that lead there. It is an error to find none.
pub fn judge(hc: &Path, documents: &[Value]) -> Result<Vec<Judgement>> {
    let mut judgements = Vec::new();
    for workload in documents.iter().filter_map(Workload::of) {
        let mut faults = workload.faults();
        let (report, fault) = numbers(hc, &workload)?;
        faults.extend(fault);
        judgements.push(Judgement { name: workload.name.clone(), report, faults });
    }
    if judgements.is_empty() {
        bail!(
            "no gateway: no Deployment, DaemonSet or StatefulSet, and no values of Istio's chart, have a container `hc`"
        );
    }
    for service in manifests::of_kind(documents, "Service") {
        let faults = workload::service_faults(&service["spec"]);
        judgements.push(Judgement { name: manifests::name(service), report: String::new(), faults });
    }
    Ok(judgements)
}

/// Has `gt-hc check` judge the numbers. It takes those of the container from its environment, as in the pod.
fn numbers(hc: &Path, workload: &Workload<'_>) -> Result<(String, Option<String>)> {
    let mut command = Command::new(hc);
    command.arg("check").env_clear().envs(workload.environment());
    for (flag, number) in workload.flags() {
        command.arg(flag).arg(number);
    }
    let output = command.output().with_context(|| format!("cannot start {}", hc.display()))?;
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    let fault = match output.status.code() {
        Some(0) => None,
        Some(2) => Some("the numbers break a rule: see BROKEN above".to_owned()),
        Some(3) => Some("a rule cannot be judged, since a number is missing: see unknown above".to_owned()),
        _ => Some(format!("gt-hc check: {}", String::from_utf8_lossy(&output.stderr).trim())),
    };
    Ok((report, fault))
}
