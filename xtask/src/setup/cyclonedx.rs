//! cargo-cyclonedx, which lists the crates inside a program.
//!
//! Owns: `target/tools/cyclonedx`.

use std::{path::PathBuf, process::Command, time::Duration};

use anyhow::{Result, bail};

use crate::{cargo, stream::stream};

const VERSION: &str = "0.5.9";

/// Two minutes on two cores, and more on a busy machine.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Builds it when it is missing.
pub fn ensure() -> Result<()> {
    if binary().is_file() {
        return Ok(());
    }
    println!("setup: building cargo-cyclonedx {VERSION} (some minutes)");
    let mut command =
        cargo::cargo(&["install", "cargo-cyclonedx", "--locked", "--version", VERSION, "--root"]);
    command.arg(root()).env_remove("CARGO_TARGET_DIR");
    let mut output = Vec::new();
    let end = stream(command, LIMIT, |line| output.push(line.to_owned()))?;
    if !end.success() {
        let tail = output.split_off(output.len().saturating_sub(15)).join("\n");
        bail!(
            "cargo-cyclonedx {VERSION}: install it with `cargo install cargo-cyclonedx --locked --version {VERSION} --root {}`, \
             which ended with {end}:\n{tail}",
            root().display()
        );
    }
    Ok(())
}

/// A call of it.
#[must_use]
pub fn command() -> Command {
    Command::new(binary())
}

fn root() -> PathBuf {
    cargo::target_dir().join("tools").join(format!("cyclonedx-{VERSION}"))
}

fn binary() -> PathBuf {
    root().join("bin").join("cargo-cyclonedx")
}
