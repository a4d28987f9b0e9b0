//! An image built from scratch: one layer with one static program.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// The name of the image with this program. Nothing is ever fetched by it.
pub const NAME: &str = "gt.test/program:1";

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// What is in an image.
pub struct Content<'a> {
    pub name: &'a str,
    /// A program of this machine.
    pub program: &'a Path,
    /// Where it lies in the image, from its root.
    pub place: &'a str,
    /// The environment that it runs with, `NAME=value` each.
    pub environment: &'a [String],
}

/// Writes the image as an archive of the OCI image layout (opencontainers/image-spec, image-layout.md).
pub fn write(content: &Content, to: &Path) -> Result<()> {
    let &Content { name, program, place, environment } = content;
    let program = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    let layer = Blob::new(archive(&[(place.to_owned(), &program, 0o755)])?);
    let config = Blob::new(serde_json::to_vec(&json!({
        "architecture": if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" },
        "os": "linux",
        "config": { "Entrypoint": [format!("/{place}")], "Env": environment },
        "rootfs": { "type": "layers", "diff_ids": [layer.digest] },
    }))?);
    let manifest = Blob::new(serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
        "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar")],
    }))?);
    let mut entry = manifest.descriptor(MANIFEST);
    entry["annotations"] = json!({ "io.containerd.image.name": name });
    let index = serde_json::to_vec(&json!({ "schemaVersion": 2, "manifests": [entry] }))?;

    let layout = archive(&[
        ("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644),
        ("index.json".to_owned(), &index, 0o644),
        (layer.path(), &layer.content, 0o644),
        (config.path(), &config.content, 0o644),
        (manifest.path(), &manifest.content, 0o644),
    ])?;
    fs::write(to, layout).with_context(|| format!("cannot write {}", to.display()))
}

/// Content that is named by its digest.
struct Blob {
    content: Vec<u8>,
    digest: String,
}

impl Blob {
    fn new(content: Vec<u8>) -> Self {
        let digest = format!("sha256:{:x}", Sha256::digest(&content));
        Self { content, digest }
    }

    fn path(&self) -> String {
        format!("blobs/{}", self.digest.replace(':', "/"))
    }

    fn descriptor(&self, media_type: &str) -> serde_json::Value {
        json!({ "mediaType": media_type, "digest": self.digest, "size": self.content.len() })
    }
}

/// A tar archive of files: path, content, mode.
fn archive(files: &[(String, &[u8], u32)]) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content, mode) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(*mode);
        builder.append_data(&mut header, path, *content)?;
    }
    Ok(builder.into_inner()?)
}
