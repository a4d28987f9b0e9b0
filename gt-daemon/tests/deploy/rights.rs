//! What the DaemonSet grants and sets, against what the daemon uses and knows. Rights in the API are compared with its
//! requests by a unit test (`pods/api/tests/access.rs`).

use std::{collections::BTreeSet, fs};

use anyhow::{Context as _, ensure};
use clap::{CommandFactory as _, Parser as _};
use gt_daemon::{cli::Cli, kernel::capability};
use serde_json::{Value, json};

use crate::{Case, daemon_set, repository, without_kubectl};

pub fn cases() -> Vec<Case> {
    let skip = without_kubectl();
    vec![
        Case::new("rights::capabilities", skip.as_ref(), capabilities),
        Case::new("rights::settings", skip.as_ref(), settings),
        Case::new("rights::mounts", skip.as_ref(), mounts),
        Case::new("rights::probes", skip.as_ref(), probes),
    ]
}

/// The capabilities that the daemon asks for, without `CAP_`.
fn used() -> BTreeSet<&'static str> {
    capability::ALL.iter().map(|capability| capability.name.trim_start_matches("CAP_")).collect()
}

fn container(kustomization: &str) -> anyhow::Result<(Value, Value)> {
    let spec = daemon_set(kustomization)?["spec"]["template"]["spec"].clone();
    let container = spec["containers"][0].clone();
    Ok((spec, container))
}

/// Exercises the container's rights against `capability::ALL` and the document, so that neither has one more.
fn capabilities() -> anyhow::Result<()> {
    for kustomization in ["base", "overlays/homelab", "overlays/staging"] {
        let (spec, container) = container(kustomization)?;
        let security = &container["securityContext"];
        let added = security["capabilities"]["add"].as_array().into_iter().flatten();
        let added: BTreeSet<_> = added.filter_map(Value::as_str).collect();
        ensure!(added == used(), "{kustomization} adds {added:?}, the daemon uses {:?}", used());
        ensure!(security["capabilities"]["drop"] == json!(["ALL"]), "{security}");
        ensure!(security["privileged"] == json!(false) && security["readOnlyRootFilesystem"] == json!(true));
        ensure!(spec["hostPID"] == json!(true) && spec["hostNetwork"] == json!(false), "{spec}");
    }
    let document = fs::read_to_string(repository("docs/capabilities.md"))?;
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `CAP_")?.split('`').next());
    let documented: BTreeSet<_> = rows.collect();
    ensure!(documented == used(), "docs/capabilities.md has {documented:?}");
    Ok(())
}

/// Exercises each variable of the container as the option it stands for, so that none is misspelt or has a wrong value.
fn settings() -> anyhow::Result<()> {
    let (_, container) = container("base")?;
    let command = Cli::command();
    let run = command.find_subcommand("run").context("there is no `run`")?;
    let mut line = vec!["gt-daemon".to_owned()];
    line.extend(
        container["args"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned),
    );
    for variable in container["env"].as_array().into_iter().flatten() {
        let name = variable["name"].as_str().unwrap_or_default();
        let option = run.get_arguments().find(|option| option.get_env().is_some_and(|env| env == name));
        let option = option.with_context(|| format!("no option of `run` reads {name}"))?;
        let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
            Some("status.hostIP") => "192.0.2.7",
            Some(_) => "from-the-downward-api",
            None => variable["value"].as_str().unwrap_or_default(),
        };
        line.push(format!("--{}={value}", option.get_long().context("an option without a long name")?));
    }
    Cli::try_parse_from(&line).with_context(|| line.join(" "))?;
    Ok(())
}

/// Exercises the mounts against the paths that the daemon reads and writes, so that nothing else of the host is shown
/// and nothing is writable but its records. `container::mounts` takes them away one by one.
fn mounts() -> anyhow::Result<()> {
    let (spec, container) = container("base")?;
    let env = |name: &str| {
        let variables = container["env"].as_array().into_iter().flatten();
        let found = variables.into_iter().find(|variable| variable["name"] == name);
        found.and_then(|variable| variable["value"].as_str()).unwrap_or_default().to_owned()
    };
    let records = env("GT_RECORD");
    let expected = BTreeSet::from([
        ("/sys/fs/cgroup".to_owned(), env("GT_CGROUP_ROOT"), true),
        ("/sys/kernel/btf".to_owned(), "/sys/kernel/btf".to_owned(), true),
        ("/var/log/pods".to_owned(), "/var/log/pods".to_owned(), true),
        ("/var/log/containers".to_owned(), "/var/log/containers".to_owned(), true),
        ("/run/gt".to_owned(), "/run/gt".to_owned(), false),
        (String::new(), records.rsplit_once('/').context("GT_RECORD is no path")?.0.to_owned(), false),
    ]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let volumes = spec["volumes"].as_array().context("no volumes")?;
    let found: BTreeSet<_> = container["volumeMounts"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|mount| {
            let volume =
                volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap_or(&Value::Null);
            let is_read_only = mount["readOnly"] == json!(true);
            (text(&volume["hostPath"]["path"]), text(&mount["mountPath"]), is_read_only)
        })
        .collect();
    ensure!(found == expected, "mounts {found:?}, not {expected:?}");
    Ok(())
}

/// Exercises the probes, the port and the scrape annotations against the daemon's own address and paths.
fn probes() -> anyhow::Result<()> {
    let whole = daemon_set("base")?;
    let template = &whole["spec"]["template"];
    let container = &template["spec"]["containers"][0];
    let command = Cli::command();
    let run = command.find_subcommand("run").context("there is no `run`")?;
    let listen = run.get_arguments().find(|option| option.get_long() == Some("listen"));
    let default =
        listen.and_then(|option| option.get_default_values().first()).context("--listen has no default")?;
    let port: u16 = default.to_string_lossy().rsplit(':').next().unwrap_or_default().parse()?;
    ensure!(container["ports"][0]["containerPort"] == port, "{}", container["ports"]);
    let annotations = &template["metadata"]["annotations"];
    ensure!(annotations["prometheus.io/port"] == json!(port.to_string()), "{annotations}");
    for (probe, path) in
        [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")]
    {
        ensure!(
            container[probe]["httpGet"] == json!({"path": path, "port": "metrics"}),
            "{}",
            container[probe]
        );
    }
    // With a PodMonitor they would have everything scraped twice.
    for overlay in ["overlays/homelab", "overlays/staging"] {
        let whole = daemon_set(overlay)?;
        let annotations = &whole["spec"]["template"]["metadata"]["annotations"];
        ensure!(annotations["prometheus.io/scrape"].is_null(), "{overlay}: {annotations}");
    }
    Ok(())
}
