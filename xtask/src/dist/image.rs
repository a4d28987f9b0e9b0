//! An OCI image with one static binary and nothing else.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::Commit;
use crate::sandbox;

/// Makes an archive of the OCI image layout (image-spec 1.0, `oci-layout`) at `out`, which `podman load`, `ctr image import`
/// and `skopeo copy oci-archive:` read.
pub(super) fn make(name: &str, binary: &Path, commit: &Commit, work: &Path, out: &Path) -> Result<()> {
    let place = work.join("image");
    if place.exists() {
        fs::remove_dir_all(&place).context("cannot remove the image of an earlier run")?;
    }
    let layout = place.join("layout");
    fs::create_dir_all(&layout).with_context(|| format!("cannot make {}", layout.display()))?;
    let buildah = |args: &[&str]| -> Result<String> {
        let storage = place.join("storage");
        let mut command = Command::new("buildah");
        // No layers to share, so no file system of layers is needed.
        command.args(["--storage-driver", "vfs", "--root"]).arg(&storage);
        command.arg("--runroot").arg(place.join("run")).args(args);
        sandbox::run(&mut command).with_context(|| format!("cannot make the image of {name}"))
    };
    let (inside, layout) = (format!("/{name}"), layout.display().to_string());
    let entry = format!("[\"{inside}\"]");
    let version = format!("org.opencontainers.image.version={}", commit.version);
    let revision = format!("org.opencontainers.image.revision={}", commit.hash);
    let title = format!("org.opencontainers.image.title={name}");
    buildah(&["from", "--name", name, "scratch"])?;
    buildah(&[
        "copy",
        "--quiet",
        "--chown",
        "0:0",
        "--chmod",
        "0755",
        name,
        &binary.display().to_string(),
        &inside,
    ])?;
    let mut config = vec!["config", "--entrypoint", &entry];
    // What runs in the cluster; both programs have further commands.
    if name == "gt-daemon" {
        config.extend(["--cmd", "run"]);
    }
    for annotation in [&version, &revision, &title] {
        config.extend(["--label", annotation]);
    }
    config.extend(["--label", "org.opencontainers.image.licenses=Apache-2.0 OR MIT", name]);
    buildah(&config)?;
    let to = format!("oci:{layout}:{}", commit.version);
    buildah(&["commit", "--quiet", "--identity-label=false", "--timestamp", &commit.time, name, &to])?;
    buildah(&["rm", name])?;
    archive(Path::new(&layout), commit, out)
}

/// The layout as one file, whose bytes follow from what is in it alone.
fn archive(layout: &Path, commit: &Commit, out: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args([
        "--create",
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--format=ustar",
        "--mode=u=rwX,go=rX",
    ]);
    tar.arg(format!("--mtime=@{}", commit.time))
        .arg("--file")
        .arg(out)
        .arg("--directory")
        .arg(layout)
        .arg(".");
    sandbox::run(&mut tar).map(drop)
}
