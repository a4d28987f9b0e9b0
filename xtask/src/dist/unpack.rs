//! An image as a runtime sees it: its files, and what it starts.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::sandbox;

/// What is in an image.
#[derive(Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// The directory that becomes a container's root.
    pub root: PathBuf,
    /// Entry point and arguments where a pod says nothing else.
    pub command: Vec<String>,
}

/// Unpacks an archive of the OCI image layout with one image (image-spec 1.0: `image-layout.md`, `manifest.md`, `config.md`)
/// below `into`, an empty directory. Layers that take files of others away (`.wh.`) are an error: gt's images have one.
pub fn unpack(archive: &Path, into: &Path) -> Result<Unpacked> {
    let told = || format!("{} is no image that can be unpacked", archive.display());
    inside(archive, into).with_context(told)
}

fn inside(archive: &Path, into: &Path) -> Result<Unpacked> {
    let (layout, root) = (into.join("layout"), into.join("root"));
    for directory in [&layout, &root] {
        fs::create_dir(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    }
    extract(archive, &layout)?;
    let index = json(&layout.join("index.json"))?;
    let manifests = index["manifests"].as_array().map(Vec::as_slice).unwrap_or_default();
    ensure!(manifests.len() == 1, "it has {} images, not one", manifests.len());
    let manifest = json(&blob(&layout, &manifests[0])?)?;
    let layers = manifest["layers"].as_array().context("its manifest names no layers")?;
    for layer in layers {
        extract(&blob(&layout, layer)?, &root)?;
    }
    let config = json(&blob(&layout, &manifest["config"])?)?;
    let words = |name: &str| config["config"][name].as_array().cloned().unwrap_or_default();
    let words = [words("Entrypoint"), words("Cmd")].concat();
    let command = words.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let unpacked = Unpacked { root, command };
    let removed = unpacked.files()?.into_iter().find(|file| file.contains(".wh."));
    ensure!(removed.is_none(), "a layer removes {removed:?}");
    Ok(unpacked)
}

impl Unpacked {
    /// Its files and links, each from the image's root (`/gt-daemon`), sorted.
    pub fn files(&self) -> Result<Vec<String>> {
        let mut find = Command::new("find");
        find.arg(&self.root).args(["!", "-type", "d", "-printf", "/%P\\n"]);
        let mut files: Vec<_> = sandbox::run(&mut find)?.lines().map(str::to_owned).collect();
        files.sort();
        Ok(files)
    }
}

fn extract(archive: &Path, into: &Path) -> Result<()> {
    // How it is compressed is for tar to find out.
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--file").arg(archive).arg("--directory").arg(into);
    sandbox::run(&mut tar).map(drop)
}

/// The file of what a descriptor (`descriptor.md`) points at.
fn blob(layout: &Path, descriptor: &Value) -> Result<PathBuf> {
    let digest = descriptor["digest"].as_str().context("a descriptor without a digest")?;
    let (algorithm, hex) = digest.split_once(':').context("a digest without its algorithm")?;
    let plain = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    ensure!(plain(algorithm) && plain(hex), "{digest:?} is no digest");
    Ok(layout.join("blobs").join(algorithm).join(hex))
}

fn json(file: &Path) -> Result<Value> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no JSON", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::workdir::Workdir;

    /// Exercises what is no image, and a digest that would lead out of the layout, so that each is an error that says so.
    #[test]
    fn no_images() {
        let into = Workdir::create().unwrap();
        let file = into.path().join("file");
        fs::write(&file, "not a tar").unwrap();
        let error = format!("{:#}", unpack(&file, into.path()).unwrap_err());
        assert!(error.contains("no image that can be unpacked"), "{error}");
        for digest in ["sha256:../../../etc/passwd", "sha256", "sha256:", ":00"] {
            let descriptor = serde_json::json!({ "digest": digest });
            assert!(blob(into.path(), &descriptor).is_err(), "{digest}");
        }
    }
}
