//! Lists of the crates inside, in CycloneDX 1.3 JSON, made by cargo-cyclonedx.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail};

use super::Commit;
use crate::{cargo, sandbox, setup::cyclonedx};

/// The tool leaves its files beside each `Cargo.toml`, by this name.
const NAME: &str = "gt-bill-of-materials";

/// Makes the lists of `packages`, each as `PACKAGE.cdx.json` in `out`.
pub(super) fn make(packages: &[&str], source: &Path, commit: &Commit, out: &Path) -> Result<()> {
    let mut command = cyclonedx::command();
    command
        .args(["cyclonedx", "--format", "json", "--quiet", "--override-filename", NAME])
        .arg("--target")
        .arg(cargo::host())
        .current_dir(source)
        .env("SOURCE_DATE_EPOCH", &commit.time);
    let made = sandbox::run(&mut command).context("cannot list the crates").and_then(|_| {
        for package in packages {
            let text = fs::read_to_string(place(source, package))?;
            // Where the clone lies is nobody's business, and would make other bytes elsewhere.
            let text = text.replace(&format!("path+file://{}", source.display()), "path+file:///gt");
            if text.contains(&source.display().to_string()) {
                bail!("the list of {package} tells where the clone lies");
            }
            fs::write(out.join(format!("{package}.cdx.json")), text)?;
        }
        Ok(())
    });
    for entry in fs::read_dir(source)?.flatten() {
        let left = place(source, &entry.file_name().to_string_lossy());
        if left.exists() {
            fs::remove_file(&left).with_context(|| format!("cannot remove {}", left.display()))?;
        }
    }
    made
}

fn place(source: &Path, package: &str) -> std::path::PathBuf {
    source.join(package).join(format!("{NAME}.json"))
}
