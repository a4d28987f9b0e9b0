//! Finds or installs what gt's commands need, says what it does, and does nothing the second time.
//!
//! Each part lives in a file of its own and answers two questions: is it there, and how does it get
//! there. A part that cannot be had is an error that names it and the remedy.

pub mod cyclonedx;
pub mod envoy;
pub mod kubectl;
pub mod linker;
pub mod nightly;
pub mod operator;
pub mod packages;
pub mod rust_src;
mod wheel;

use anyhow::{Result, bail};

/// What a command is about to do; its parts of the set-up follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Compile the workspace, the eBPF programs included.
    Build,
    /// Make namespaces and look at packets on this machine.
    Sandbox,
    /// Start pods by a real container runtime.
    Runtime,
    /// Run the real load balancer and gateway.
    Demo,
    /// Look at pages as a person does.
    Browser,
    /// Show the console on a real terminal.
    Terminal,
    /// Boot other kernels.
    Vm,
    /// Scrape daemons and judge alerts.
    Alerts,
    /// Render and judge what is applied to a cluster.
    Deploy,
    /// Make an image of a program.
    Image,
    /// Make what is handed to others. Not part of a whole set-up: nothing else needs it.
    Dist,
}

/// Everything that tests and the other commands need.
pub const ALL: [Need; 10] = [
    Need::Build,
    Need::Sandbox,
    Need::Runtime,
    Need::Demo,
    Need::Vm,
    Need::Alerts,
    Need::Deploy,
    Need::Image,
    Need::Browser,
    Need::Terminal,
];

/// Installs what `needs` ask for. All parts are tried before the errors are told, so that one run
/// shows everything that is missing.
pub fn ensure(needs: &[Need]) -> Result<()> {
    let mut errors = Vec::new();
    let mut part = |result: Result<()>| {
        if let Err(error) = result {
            errors.push(format!("- {error:#}"));
        }
    };
    part(packages::ensure(needs));
    if needs.contains(&Need::Build) {
        part(nightly::ensure().and_then(|nightly| {
            rust_src::ensure(&nightly)?;
            linker::ensure(&nightly)
        }));
    }
    if needs.contains(&Need::Demo) {
        part(envoy::envoy().map(drop));
    }
    if needs.contains(&Need::Deploy) {
        part(kubectl::kubectl().map(drop));
        part(operator::types().map(drop));
    }
    if needs.contains(&Need::Dist) {
        part(cyclonedx::ensure());
    }
    if errors.is_empty() {
        return Ok(());
    }
    bail!("set-up is not complete; missing:\n{}", errors.join("\n"))
}

/// `cargo xtask setup`: everything, with a closing line.
pub fn run() -> Result<()> {
    ensure(&ALL)?;
    println!("setup: everything is there");
    Ok(())
}
