//! The nightly toolchain: only it can build the core library for the BPF target.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail};

use crate::{cargo::other_toolchain, sandbox, stream::stream};

/// The nightly that was found.
#[derive(Debug)]
pub struct Nightly {
    /// Its directory.
    pub sysroot: PathBuf,
    /// The major version of the LLVM that writes its bitcode.
    pub llvm: u32,
}

/// What aya-build asks rustup for.
pub const NAME: &str = "nightly";

/// A toolchain is some hundred megabytes.
const INSTALL_LIMIT: Duration = Duration::from_secs(10 * 60);

/// Installs a nightly when there is none; one that is there is left as it is.
pub fn ensure() -> Result<Nightly> {
    if let Ok(nightly) = find() {
        return Ok(nightly);
    }
    println!("setup: installing the nightly toolchain (the eBPF programs need -Z build-std)");
    let args = ["toolchain", "install", NAME, "--profile", "minimal", "--no-self-update"];
    rustup(&args, INSTALL_LIMIT).context(
        "a nightly Rust toolchain: install one with `rustup toolchain install nightly --profile minimal` (rustup itself: https://rustup.rs)",
    )?;
    find()
}

fn find() -> Result<Nightly> {
    let version = sandbox::run(&mut other_toolchain("rustup", &["run", NAME, "rustc", "-vV"]))?;
    let sysroot =
        sandbox::run(&mut other_toolchain("rustup", &["run", NAME, "rustc", "--print", "sysroot"]))?;
    let llvm = llvm_major(&version)
        .with_context(|| format!("no LLVM version in the output of `rustc -vV`: {version}"))?;
    Ok(Nightly { sysroot: PathBuf::from(sysroot.trim()), llvm })
}

fn llvm_major(version: &str) -> Option<u32> {
    version.lines().find_map(|line| line.strip_prefix("LLVM version: "))?.split('.').next()?.parse().ok()
}

/// Runs rustup with a limit: without an answer from its server it waits for a long time.
pub fn rustup(args: &[&str], limit: Duration) -> Result<()> {
    let mut last = String::new();
    let end = stream(other_toolchain("rustup", args), limit, |line| {
        if !line.trim().is_empty() {
            line.clone_into(&mut last);
        }
    })?;
    if !end.success() {
        bail!("`rustup {}` ended with {end}: {last}", args.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises rustc's own format so that a mismatch with bpf-linker is told before the linker fails.
    #[test]
    fn llvm_major_is_read_from_rustc() {
        assert_eq!(
            llvm_major("rustc 1.97.0-nightly\nrelease: 1.97.0-nightly\nLLVM version: 22.1.4\n"),
            Some(22)
        );
        assert_eq!(llvm_major("rustc 1.97.0-nightly\n"), None);
    }
}
