//! Where the workspace is, and commands that start cargo and rustup from inside `cargo run`.
//!
//! `cargo xtask` is itself a child of cargo and rustup, whose variables pin every grandchild to the
//! workspace's toolchain; a command for another toolchain has to shed them first.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Set by the outer `cargo run` for its own toolchain; each of them would steer another toolchain's
/// cargo or rustc back to this one.
const INHERITED: [&str; 9] = [
    "CARGO",
    "CARGO_ENCODED_RUSTFLAGS",
    "LD_LIBRARY_PATH",
    "RUSTC",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTDOC",
    "RUSTFLAGS",
    "RUSTUP_TOOLCHAIN",
    "RUST_RECURSION_COUNT",
];

/// The target of this machine, for which everything but gt-ebpf is built.
#[must_use]
pub fn host() -> String {
    format!("{}-unknown-linux-gnu", env::consts::ARCH)
}

/// The workspace's directory.
#[must_use]
pub fn root() -> PathBuf {
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The directory of everything built or downloaded.
#[must_use]
pub fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// `cargo` of the workspace's own toolchain, in the workspace.
#[must_use]
pub fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(root());
    command
}

/// `cargo <subcommand>` for this machine's target with static binaries. Everything that is built or
/// checked goes through here: other flags would mean a second build of the whole tree, and a dynamic
/// binary would not start in a test guest.
#[must_use]
pub fn static_cargo(subcommand: &str, args: &[&str]) -> Command {
    let mut command = cargo(&[subcommand, "--target", &host()]);
    command
        .args(args)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    command
}

/// A command that chooses its toolchain itself (`rustup run nightly ..`). It runs outside the
/// workspace, whose `rust-toolchain.toml` would have a say otherwise.
#[must_use]
pub fn other_toolchain(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir("/");
    for variable in INHERITED {
        command.env_remove(variable);
    }
    command
}
