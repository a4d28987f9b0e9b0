//! `cargo xtask dist`: what is handed to others. Static binaries, an OCI image of each, lists of what is inside, checksums.
//!
//! The same source makes the same bytes, wherever its clone lies: paths are taken out of what is compiled, and instants are that of
//! the commit. `--twice` proves it.

mod binaries;
mod image;
mod sbom;
mod sums;
pub mod unpack;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    cargo, sandbox,
    setup::{self, Need},
};

/// The two programs that run in a cluster; each has an image of its name.
pub const PROGRAMS: [&str; 2] = ["gt-daemon", "gt-hc"];

#[derive(Debug, clap::Args)]
pub struct Options {
    /// Where the files go; what is there already is replaced
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Make everything a second time, from a clone of the last commit elsewhere, and compare
    #[arg(long)]
    twice: bool,
}

/// Makes everything.
pub fn run(options: &Options) -> Result<()> {
    setup::ensure(&[Need::Build, Need::Image, Need::Dist])?;
    let work = cargo::target_dir().join("dist");
    let out = options.out.clone().unwrap_or_else(|| work.join("out"));
    if options.twice && !changes()?.is_empty() {
        bail!(
            "there are changes that are not committed, and --twice compares with a clone of the last commit: commit them first"
        );
    }
    let sums = make(&cargo::root(), &work, &out)?;
    print!("{}", sums::text(&sums));
    println!("dist: written to {}", out.display());
    if options.twice {
        again(&work, &sums)?;
    }
    Ok(())
}

/// Makes everything of one clone, with `work` for what is made on the way. Returns names and digests.
fn make(source: &Path, work: &Path, out: &Path) -> Result<Vec<(String, String)>> {
    if out.exists() {
        fs::remove_dir_all(out).with_context(|| format!("cannot remove what is in {}", out.display()))?;
    }
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    fs::create_dir_all(work).with_context(|| format!("cannot make {}", work.display()))?;
    let commit = Commit::of(source)?;
    for program in binaries::build(source, work)? {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let place = out.join(&name);
        fs::copy(&program, &place).with_context(|| format!("cannot copy {}", program.display()))?;
        image::make(&name, &place, &commit, work, &out.join(format!("{name}.oci.tar")))?;
    }
    // The kernel programs are inside gt-daemon, and made of crates of their own.
    sbom::make(&[PROGRAMS.as_slice(), &["gt-ebpf"]].concat(), source, &commit, out)?;
    let sums = sums::of(out)?;
    fs::write(out.join("SHA256SUMS"), sums::text(&sums)).context("cannot write SHA256SUMS")?;
    Ok(sums)
}

/// Makes the image of a program that is built already, with what else `dist` says of it. Returns the archive.
pub fn image_of(name: &str, program: &Path) -> Result<PathBuf> {
    let work = cargo::target_dir().join("dist");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let archive = work.join(format!("{name}-tried.oci.tar"));
    image::make(name, program, &Commit::of(&cargo::root())?, &work, &archive)?;
    Ok(archive)
}

/// The same from a clone at another place, which must come to the same.
fn again(work: &Path, sums: &[(String, String)]) -> Result<()> {
    let elsewhere = work.join("again");
    if elsewhere.exists() {
        fs::remove_dir_all(&elsewhere).context("cannot remove the second clone of an earlier run")?;
    }
    let clone = elsewhere.join("some").join("other").join("place");
    sandbox::run(Command::new("git").arg("clone").arg("--quiet").arg(cargo::root()).arg(&clone))?;
    let second = make(&clone, &elsewhere.join("work"), &elsewhere.join("out"))?;
    let differ: Vec<_> = sums.iter().zip(&second).filter(|(one, other)| one != other).collect();
    if second.len() != sums.len() || !differ.is_empty() {
        bail!(
            "made twice, and not the same: {differ:?}; compare {} with {}",
            work.display(),
            elsewhere.display()
        );
    }
    fs::remove_dir_all(&elsewhere).context("cannot remove the second clone")?;
    println!("dist: made twice at two places, {} files, the same bytes", sums.len());
    Ok(())
}

/// Changes to files that git knows.
fn changes() -> Result<String> {
    sandbox::run(
        Command::new("git")
            .args(["status", "--porcelain", "--untracked-files=no"])
            .current_dir(cargo::root()),
    )
}

/// What the files are made of.
#[derive(Debug)]
struct Commit {
    hash: String,
    /// Seconds since 1970: the instant of everything that is made.
    time: String,
    version: String,
}

impl Commit {
    fn of(source: &Path) -> Result<Self> {
        let told =
            sandbox::run(Command::new("git").args(["log", "-1", "--format=%H %ct"]).current_dir(source))
                .context("the source is no git clone, whose last commit dates the files")?;
        let (hash, time) = told.trim().split_once(' ').context("git tells no instant of the last commit")?;
        Ok(Self {
            hash: hash.to_owned(),
            time: time.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }
}
