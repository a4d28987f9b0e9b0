//! The standard library's source, from which core is built for the BPF target.
//!
//! In this order: what is there, rustup, and last a directory or archive that `GT_RUST_SRC` names,
//! for machines that cannot reach rustup's server.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::nightly::{self, Nightly};
use crate::sandbox;

/// Names a directory or an archive that holds `library/`.
const VARIABLE: &str = "GT_RUST_SRC";

/// rust-src is 4 MB. With something to fall back on there is less reason to wait.
const LIMIT: Duration = Duration::from_secs(180);
const LIMIT_WITH_FALLBACK: Duration = Duration::from_secs(30);

/// Puts the source of the standard library into the nightly's sysroot.
pub fn ensure(nightly: &Nightly) -> Result<()> {
    let place = nightly.sysroot.join("lib/rustlib/src/rust");
    if is_library(&place.join("library")) {
        return Ok(());
    }
    let fallback = env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    let limit = if fallback.is_some() { LIMIT_WITH_FALLBACK } else { LIMIT };
    println!("setup: asking rustup for rust-src (at most {} s)", limit.as_secs());
    let asked = nightly::rustup(&["component", "add", "rust-src", "--toolchain", nightly::NAME], limit);
    if is_library(&place.join("library")) {
        return Ok(());
    }
    let refusal = asked.err().map_or_else(|| "rustup added nothing".to_owned(), |error| format!("{error:#}"));
    let Some(source) = fallback else {
        bail!(
            "rust-src of the nightly toolchain ({refusal}): run `rustup component add rust-src --toolchain nightly` \
             with access to static.rust-lang.org, or let {VARIABLE} name a directory or archive that holds the \
             `library/` of the toolchain in {}",
            nightly.sysroot.display()
        );
    };
    println!("setup: {refusal}");
    println!("setup: taking rust-src from {VARIABLE}={}", source.display());
    install(&source, &place)
        .with_context(|| format!("rust-src of the nightly toolchain, from {VARIABLE}={}", source.display()))
}

fn is_library(library: &Path) -> bool {
    library.join("core/src/lib.rs").is_file() && library.join("Cargo.lock").is_file()
}

/// Unpacks beside the place and renames, so that an interrupted set-up leaves no half library.
fn install(source: &Path, place: &Path) -> Result<()> {
    let partial = place.with_extension("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial).with_context(|| format!("cannot remove {}", partial.display()))?;
    }
    fs::create_dir_all(&partial).with_context(|| format!("cannot make {}", partial.display()))?;
    if source.is_dir() {
        let library = library_in(source)?;
        sandbox::run(
            Command::new("cp")
                .args(["--recursive", "--no-target-directory"])
                .arg(library)
                .arg(partial.join("library")),
        )?;
    } else {
        sandbox::run(
            Command::new("tar").arg("--extract").arg("--file").arg(source).arg("--directory").arg(&partial),
        )?;
    }
    let library = library_in(&partial)?;
    fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
    let target = place.join("library");
    if target.exists() {
        fs::remove_dir_all(&target)
            .with_context(|| format!("cannot remove the incomplete {}", target.display()))?;
    }
    fs::rename(&library, &target)
        .with_context(|| format!("cannot move the library to {}", target.display()))?;
    fs::remove_dir_all(&partial).with_context(|| format!("cannot remove {}", partial.display()))
}

/// The `library` directory in `dir`: at the top, as in a distribution's archive, or where rustup's own
/// archive and a sysroot have it.
fn library_in(dir: &Path) -> Result<PathBuf> {
    let nested = "rust-src/lib/rustlib/src/rust/library";
    let mut candidates = vec![
        dir.to_path_buf(),
        dir.join("library"),
        dir.join(nested),
        dir.join("lib/rustlib/src/rust/library"),
    ];
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let entry = entry?.path();
        candidates.push(entry.join("library"));
        candidates.push(entry.join(nested));
    }
    candidates
        .into_iter()
        .find(|candidate| is_library(candidate))
        .with_context(|| format!("no library/core/src/lib.rs with library/Cargo.lock in {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(library: &Path) {
        fs::create_dir_all(library.join("core/src")).unwrap();
        fs::write(library.join("core/src/lib.rs"), "").unwrap();
        fs::write(library.join("Cargo.lock"), "").unwrap();
    }

    /// Exercises an archive, a directory and an archive of something else so that only a whole library
    /// ends up in the sysroot.
    #[test]
    fn a_library_is_taken_from_an_archive_or_a_directory() {
        let dir = env::temp_dir().join(format!("gt-rust-src-{}", std::process::id()));
        let given = dir.join("given");
        fill(&given.join("library"));
        let archive = dir.join("rust-src.tar.gz");
        let tar = |what: &str| {
            let mut command = Command::new("tar");
            command.arg("-czf").arg(&archive).arg("-C").arg(&given).arg(what);
            sandbox::run(&mut command).unwrap();
        };
        tar("library");
        for (name, source) in [("a", &archive), ("b", &given)] {
            let place = dir.join(name).join("rust");
            install(source, &place).unwrap();
            assert!(is_library(&place.join("library")), "{name}");
            assert!(!place.with_extension("partial").exists());
        }
        tar("library/Cargo.lock");
        let error = install(&archive, &dir.join("c/rust")).unwrap_err();
        assert!(error.to_string().contains("no library/core/src/lib.rs"), "{error:#}");
        assert!(!dir.join("c/rust/library").exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
