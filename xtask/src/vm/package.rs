//! Fetches a kernel's packages and unpacks them, once.
//!
//! Owns: `target/vm/`. Refuses: to install a kernel.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::{archive::Archive, kernels::Kernel};
use crate::{cargo, sandbox};

/// An unpacked kernel.
#[derive(Debug)]
pub(super) struct Image {
    pub vmlinuz: PathBuf,
    /// `lib/modules/<release>`, with its modules.dep.
    pub modules: PathBuf,
    pub release: String,
}

/// Where everything of one guest lies.
#[must_use]
pub(super) fn directory(kernel: &Kernel) -> PathBuf {
    cargo::target_dir().join("vm").join(kernel.name)
}

/// Where a kernel's packages are unpacked, for all guests that boot it.
fn unpacked(kernel: &Kernel) -> PathBuf {
    cargo::target_dir().join("vm/kernels").join(kernel.suite)
}

/// The kernel's files; the packages are downloaded when they are not there yet.
pub(super) fn image(kernel: &Kernel) -> Result<Image> {
    let dir = unpacked(kernel);
    let root = dir.join("root");
    if !root.exists() {
        fetch(kernel, &dir).with_context(|| {
            format!("kernel {} (package {} of {})", kernel.name, kernel.package, kernel.suite)
        })?;
    }
    let release = release(&root)?;
    let modules = root.join("lib/modules").join(&release);
    // Newer packages keep it beside the modules.
    let places = [root.join("boot").join(format!("vmlinuz-{release}")), modules.join("vmlinuz")];
    let vmlinuz = places.into_iter().find(|place| place.is_file()).with_context(|| {
        format!("no image of kernel {release} in {}: remove it and try again", root.display())
    })?;
    Ok(Image { vmlinuz, modules, release })
}

fn release(root: &Path) -> Result<String> {
    let modules = root.join("lib/modules");
    let entry = fs::read_dir(&modules).ok().and_then(|mut entries| entries.next()).with_context(|| {
        format!("no kernel in {}: remove {} and try again", modules.display(), root.display())
    })??;
    Ok(entry.file_name().to_string_lossy().into_owned())
}

fn fetch(kernel: &Kernel, dir: &Path) -> Result<()> {
    let state = dir.join("apt");
    let archive = Archive::open(kernel.suite, &state)?;
    let names = archive.kernel(kernel.package)?;
    println!("vm-test: downloading {names:?} for kernel {}", kernel.name);
    let files = archive.download(&names)?;

    // Unpacked under another name first: an interrupted run leaves no half kernel.
    let partial = dir.join("root.partial");
    if partial.exists() {
        fs::remove_dir_all(&partial).with_context(|| format!("cannot remove {}", partial.display()))?;
    }
    for file in &files {
        sandbox::run(Command::new("dpkg-deb").arg("--extract").arg(file).arg(&partial))?;
    }
    // Newer packages know no /lib of its own.
    let lib = partial.join("lib");
    if !lib.exists() {
        std::os::unix::fs::symlink("usr/lib", &lib)
            .with_context(|| format!("cannot link {}", lib.display()))?;
    }
    // The package leaves this to its installation script.
    sandbox::run(Command::new("busybox").args(["depmod", "-b"]).arg(&partial).arg(release(&partial)?))?;
    fs::rename(&partial, dir.join("root")).context("cannot rename the unpacked kernel")?;
    fs::remove_dir_all(&state).with_context(|| format!("cannot remove {}", state.display()))
}
