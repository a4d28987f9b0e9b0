//! Fetches a kernel's package and unpacks it, once.
//!
//! Owns: `target/vm/<kernel>/`. Refuses: to install a kernel, or to touch the system's package sources.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::kernels::Kernel;
use crate::{cargo, sandbox, setup::packages};

/// An unpacked kernel.
#[derive(Debug)]
pub(super) struct Image {
    pub vmlinuz: PathBuf,
    /// `lib/modules/<release>`, with its modules.dep.
    pub modules: PathBuf,
    pub release: String,
}

/// Where everything of one kernel lies.
#[must_use]
pub(super) fn directory(kernel: &Kernel) -> PathBuf {
    cargo::target_dir().join("vm").join(kernel.name)
}

/// The kernel's files; the package is downloaded when they are not there yet.
pub(super) fn image(kernel: &Kernel) -> Result<Image> {
    let dir = directory(kernel);
    let root = dir.join("root");
    if !root.exists() {
        fetch(kernel, &dir).with_context(|| {
            format!("kernel {} (package {} of {})", kernel.name, kernel.package, kernel.suite)
        })?;
    }
    let release = release(&root)?;
    Ok(Image {
        vmlinuz: root.join("boot").join(format!("vmlinuz-{release}")),
        modules: root.join("lib/modules").join(&release),
        release,
    })
}

fn release(root: &Path) -> Result<String> {
    let modules = root.join("lib/modules");
    let entry = fs::read_dir(&modules).ok().and_then(|mut entries| entries.next()).with_context(|| {
        format!("no kernel in {}: remove {} and try again", modules.display(), root.display())
    })??;
    Ok(entry.file_name().to_string_lossy().into_owned())
}

fn fetch(kernel: &Kernel, dir: &Path) -> Result<()> {
    let system = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    if !system.lines().any(|line| line == format!("VERSION_CODENAME={}", kernel.suite)) {
        bail!("this system is not Debian {}: no other suite's packages can be had yet", kernel.suite);
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let package = match resolve(kernel.package) {
        Ok(package) => package,
        // A fresh system has no package lists.
        Err(_) => packages::apt(&["update"]).and_then(|()| resolve(kernel.package))?,
    };
    println!("vm-test: downloading {package} for kernel {}", kernel.name);
    if download(&package, dir).is_err() {
        // The mirror has replaced the version that the lists name.
        packages::apt(&["update"])?;
        download(&resolve(kernel.package)?, dir)?;
    }
    let archive = fs::read_dir(dir)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .with_context(|| format!("apt-get left no package in {}", dir.display()))?;

    // Unpacked under another name first: an interrupted run leaves no half kernel.
    let partial = dir.join("root.partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    sandbox::run(Command::new("dpkg-deb").arg("--extract").arg(&archive).arg(&partial))?;
    // The package leaves this to its installation script.
    sandbox::run(Command::new("busybox").args(["depmod", "-b"]).arg(&partial).arg(release(&partial)?))?;
    fs::rename(&partial, dir.join("root")).context("cannot rename the unpacked kernel")?;
    fs::remove_file(&archive).with_context(|| format!("cannot remove {}", archive.display()))
}

/// The image package that the meta package depends on.
fn resolve(package: &str) -> Result<String> {
    let output = sandbox::run(Command::new("apt-cache").args(["depends", package]))?;
    dependency(&output).with_context(|| format!("package {package} depends on no kernel image: {output}"))
}

fn dependency(output: &str) -> Option<String> {
    output
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with("linux-image-"))
        .map(str::to_owned)
}

fn download(package: &str, dir: &Path) -> Result<()> {
    let mut command = Command::new("apt-get");
    // apt's own user cannot write to a directory of root.
    command.args(["--quiet", "-o", "APT::Sandbox::User=root", "download", package]).current_dir(dir);
    sandbox::run(&mut command).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises apt's format so that the image is found among other dependencies.
    #[test]
    fn the_image_is_found_among_the_dependencies() {
        let output =
            "linux-image-cloud-amd64\n  Depends: linux-base\n  Depends: linux-image-6.1.0-57-cloud-amd64\n";
        assert_eq!(dependency(output).as_deref(), Some("linux-image-6.1.0-57-cloud-amd64"));
        assert_eq!(dependency("linux-image-cloud-amd64\n"), None);
    }
}
