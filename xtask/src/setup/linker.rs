//! bpf-linker, which turns the nightly's bitcode into a BPF object.

use std::{env, process::Command, time::Duration};

use anyhow::{Context as _, Result, bail};

use super::nightly::Nightly;
use crate::{cargo, sandbox, stream::stream};

/// The release that was tried with aya 0.14.
const VERSION: &str = "0.13.0";

/// The LLVM it is built with; the Debian packages of the table have the same number.
const LLVM: u32 = 22;

/// Two minutes on two cores, and more on a busy machine.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Builds bpf-linker when it is missing or of another release.
pub fn ensure(nightly: &Nightly) -> Result<()> {
    if nightly.llvm > LLVM {
        // An older LLVM does not read a newer one's bitcode.
        bail!(
            "a nightly that fits bpf-linker: this one writes bitcode of LLVM {}, and bpf-linker {VERSION} reads up to \
             LLVM {LLVM}; install a nightly of LLVM {LLVM} (`rustc +nightly -vV` shows it)",
            nightly.llvm
        );
    }
    if nightly.llvm < LLVM {
        println!(
            "setup: the nightly writes bitcode of LLVM {}, bpf-linker reads it with LLVM {LLVM}",
            nightly.llvm
        );
    }
    match installed() {
        Some(version) if version == VERSION => return Ok(()),
        Some(version) => println!("setup: replacing bpf-linker {version} by {VERSION} (some minutes)"),
        None => println!("setup: building bpf-linker {VERSION} (some minutes)"),
    }
    let args =
        ["install", "bpf-linker", "--version", VERSION, "--force", "--no-default-features", "--features"];
    let mut command = cargo::cargo(&args);
    command.arg(format!("llvm-{LLVM}"));
    // Its build script takes the first llvm-config it meets.
    let path = env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("/usr/lib/llvm-{LLVM}/bin:{path}")).env_remove("CARGO_TARGET_DIR");
    let mut output = Vec::new();
    let end = stream(command, LIMIT, |line| output.push(line.to_owned()))?;
    if !end.success() {
        let tail = output.split_off(output.len().saturating_sub(15)).join("\n");
        bail!(
            "bpf-linker {VERSION}: install it with `PATH=/usr/lib/llvm-{LLVM}/bin:$PATH cargo {} llvm-{LLVM}`, which ended with {end}:\n{tail}",
            args.join(" ")
        );
    }
    installed().map(drop).context(
        "bpf-linker was built but is not found: add cargo's bin directory (usually ~/.cargo/bin) to PATH",
    )
}

fn installed() -> Option<String> {
    let output = sandbox::run(Command::new("bpf-linker").arg("--version")).ok()?;
    output.trim().strip_prefix("bpf-linker ").map(str::to_owned)
}
