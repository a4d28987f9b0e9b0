//! Static binaries without paths of the machine that made them.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::PROGRAMS;
use crate::{cargo, stream::stream};

/// Two cores, nothing built yet.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// Builds both programs of the clone `source`. Returns their paths.
pub(super) fn build(source: &Path, work: &Path) -> Result<Vec<PathBuf>> {
    let target = work.join("build");
    let wrapper = wrapper(source, &target, work)?;
    let packages = PROGRAMS.iter().flat_map(|name| ["--package", name]);
    let args: Vec<&str> = ["--release", "--locked"].into_iter().chain(packages).collect();
    let mut command = cargo::static_cargo("build", &args);
    command.current_dir(source).env("CARGO_TARGET_DIR", &target).env("RUSTC_WRAPPER", wrapper);
    println!("dist: building {} (some minutes)", PROGRAMS.join(" and "));
    let mut output = Vec::new();
    let end = stream(command, LIMIT, |line| output.push(line.to_owned()))?;
    if !end.success() {
        let tail = output.split_off(output.len().saturating_sub(15)).join("\n");
        bail!("`cargo build --release` ended with {end}:\n{tail}");
    }
    let built = target.join(cargo::host()).join("release");
    Ok(PROGRAMS.iter().map(|name| built.join(name)).collect())
}

/// A compiler that replaces paths of this machine, also in the kernel programs, whose flags aya-build sets itself.
fn wrapper(source: &Path, target: &Path, work: &Path) -> Result<PathBuf> {
    let home = env::var("HOME").unwrap_or_default();
    let of = |variable: &str, usual: &str| env::var(variable).unwrap_or_else(|_| format!("{home}/{usual}"));
    let source = source.display().to_string();
    let target = target.display().to_string();
    // Of two that fit the last one counts: the target directory may be inside the source.
    let paths = [
        (of("CARGO_HOME", ".cargo"), "/cargo"),
        (of("RUSTUP_HOME", ".rustup"), "/rustup"),
        (source, "/gt"),
        (target, "/gt/target"),
    ];
    let mut script = String::from("#!/bin/sh\nexec \"$@\"");
    for (path, name) in paths {
        if path.contains('\'') {
            bail!("the path {path} has a quote in it, which the build cannot take: choose another one");
        }
        script.push_str(&format!(" '--remap-path-prefix={path}={name}'"));
    }
    script.push('\n');
    let place = work.join("rustc-without-paths");
    fs::write(&place, script).with_context(|| format!("cannot write {}", place.display()))?;
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).context("cannot make it executable")?;
    Ok(place)
}
