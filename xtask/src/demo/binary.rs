//! The gt-daemon that the demo shows.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::artifacts;

/// The daemon's path: the one given, else the release build of this workspace, made now.
pub(super) fn daemon(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = given {
        if !path.is_file() {
            bail!(
                "--daemon names {}, which is not a file: leave the option out to build one",
                path.display()
            );
        }
        return path.canonicalize().with_context(|| format!("cannot resolve {}", path.display()));
    }
    Ok(artifacts::release(&["gt-daemon"])?.join("gt-daemon"))
}
