//! Packages of any suite of the distribution's archive.
//!
//! Owns: `target/vm/kernels/<suite>/apt/`, a private state of apt with its own list of sources. Refuses: to touch the system's
//! sources, lists or packages.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{sandbox, setup::packages};

/// Keys of all suites, old and new (package debian-archive-keyring).
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// apt with a state of its own.
#[derive(Debug)]
pub(super) struct Archive {
    directory: PathBuf,
}

impl Archive {
    /// Fetches the lists of a suite into `directory`, which is made.
    pub(super) fn open(suite: &str, directory: &Path) -> Result<Self> {
        let archive = Self { directory: directory.to_owned() };
        for part in ["lists/partial", "cache/archives/partial"] {
            let part = directory.join(part);
            fs::create_dir_all(&part).with_context(|| format!("cannot make {}", part.display()))?;
        }
        let source = format!("deb [signed-by={KEYRING}] {} {suite} main\n", mirror()?);
        for (file, text) in [("status", ""), ("sources.list", source.as_str())] {
            let file = directory.join(file);
            fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        }
        sandbox::run(&mut archive.apt("apt-get", &["update"]))
            .with_context(|| format!("cannot have the lists of suite {suite}"))?;
        Ok(archive)
    }

    fn apt(&self, program: &str, args: &[&str]) -> Command {
        let place = |name: &str| self.directory.join(name).display().to_string();
        let mut command = Command::new(program);
        for setting in [
            format!("Dir::Etc::sourcelist={}", place("sources.list")),
            "Dir::Etc::sourceparts=-".to_owned(),
            format!("Dir::State={}", place("")),
            format!("Dir::State::lists={}", place("lists")),
            format!("Dir::State::status={}", place("status")),
            format!("Dir::Cache={}", place("cache")),
            // apt's own user cannot write to a directory of root.
            "APT::Sandbox::User=root".to_owned(),
        ] {
            command.args(["-o", &setting]);
        }
        command.arg("--quiet").args(args);
        command
    }

    /// The packages with a kernel's files, by the meta package that depends on the newest: since 7.0 the image's package pulls
    /// the image itself and its modules from others.
    pub(super) fn kernel(&self, package: &str) -> Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        let mut open = vec![package.to_owned()];
        while let Some(package) = open.pop() {
            let output = sandbox::run(&mut self.apt("apt-cache", &["depends", &package]))?;
            open.extend(dependencies(&output).into_iter().filter(|name| found.insert(name.clone())));
        }
        if found.is_empty() {
            bail!("package {package} depends on no kernel image");
        }
        Ok(found)
    }

    /// Downloads packages; gives their files.
    pub(super) fn download(&self, names: &BTreeSet<String>) -> Result<Vec<PathBuf>> {
        let mut args = vec!["download"];
        args.extend(names.iter().map(String::as_str));
        sandbox::run(self.apt("apt-get", &args).current_dir(&self.directory))?;
        let entries = fs::read_dir(&self.directory)
            .with_context(|| format!("cannot read {}", self.directory.display()))?;
        let files: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .collect();
        if files.len() != names.len() {
            bail!("apt-get left {} packages in {}, not {names:?}", files.len(), self.directory.display());
        }
        Ok(files)
    }
}

/// The packages of one kernel among those that a package depends on.
fn dependencies(output: &str) -> Vec<String> {
    let is_one = |name: &&str| {
        let of = ["linux-image-", "linux-base-", "linux-binary-", "linux-modules-"];
        let release = of.iter().find_map(|prefix| name.strip_prefix(prefix));
        release.is_some_and(|release| release.starts_with(|first: char| first.is_ascii_digit()))
    };
    let names = output.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    names.filter(is_one).map(str::to_owned).collect()
}

/// Where this machine has the distribution's packages from.
fn mirror() -> Result<String> {
    let ask = || {
        let format = "$(ORIGIN) $(LABEL) $(REPO_URI)";
        sandbox::run(Command::new("apt-get").args([
            "indextargets",
            "--format",
            format,
            "Created-By: Packages",
        ]))
    };
    let find = |told: &str| {
        told.lines().find_map(|line| line.strip_prefix("Debian Debian ")).map(|uri| uri.trim().to_owned())
    };
    if let Some(uri) = find(&ask()?) {
        return Ok(uri);
    }
    // A fresh system has no package lists.
    packages::apt(&["update"])?;
    find(&ask()?)
        .context("apt knows no archive of Debian on this machine: kernels for guests come from there")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises apt's format, of one package and of several for a kernel, so that each file is found and nothing else.
    #[test]
    fn a_kernel_is_found_among_the_dependencies() {
        let one =
            "linux-image-cloud-amd64\n  Depends: linux-base\n  Depends: linux-image-6.1.0-57-cloud-amd64\n";
        assert_eq!(dependencies(one), ["linux-image-6.1.0-57-cloud-amd64"]);
        let many = "linux-image-7.3.4-cloud-amd64\n  PreDepends: linux-base\n |Depends: <dracut>\n  Depends: linux-base-7.3.4\n  \
                    Depends: linux-binary-7.3.4\n  Depends: linux-modules-7.3.4\n  Suggests: linux-doc-7.3\n";
        assert_eq!(dependencies(many), ["linux-base-7.3.4", "linux-binary-7.3.4", "linux-modules-7.3.4"]);
        assert!(dependencies("linux-image-cloud-amd64\n  Depends: linux-modules-cloud-amd64\n").is_empty());
    }
}
