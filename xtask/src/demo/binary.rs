//! The gt-daemon that the demo shows.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::cargo;

/// The daemon's path: the one given, else the release build of this workspace, made now.
pub(super) fn daemon(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        if !path.is_file() {
            bail!(
                "--daemon names {}, which is not a file: leave the option out to build one",
                path.display()
            );
        }
        return path.canonicalize().with_context(|| format!("cannot resolve {}", path.display()));
    }
    let build = ["build", "--release", "--package", "gt-daemon"];
    let status = cargo::cargo(&build).status().context("cannot start cargo: install Rust with rustup")?;
    if !status.success() {
        bail!(
            "`cargo {}` ended with {status}: `cargo xtask setup` installs what the build needs",
            build.join(" ")
        );
    }
    Ok(cargo::target_dir().join("release/gt-daemon"))
}
