//! A temporary directory, removed with all it holds on drop.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use nix::unistd::mkdtemp;

/// A fresh directory that only its owner can enter.
#[derive(Debug)]
pub struct Workdir {
    path: PathBuf,
}

impl Workdir {
    /// Makes it below the system's directory for temporary files.
    pub fn create() -> Result<Self> {
        let template = env::temp_dir().join("gt-stage-XXXXXX");
        let path = mkdtemp(&template).with_context(|| {
            format!("cannot make a directory like {}: set TMPDIR to a writable one", template.display())
        })?;
        Ok(Self { path })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Workdir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("left behind: {}: {error}", self.path.display());
        }
    }
}
