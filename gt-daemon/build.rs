//! Builds the kernel programs and leaves the object where `include_bytes_aligned!` finds it.

use anyhow::Context as _;
use aya_build::{Package, Toolchain, build_ebpf};

fn main() -> anyhow::Result<()> {
    let root_dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../gt-ebpf");
    println!("cargo:rerun-if-changed={}/../gt-common/src", env!("CARGO_MANIFEST_DIR"));
    build_ebpf([Package { name: "gt-ebpf", root_dir, ..Package::default() }], Toolchain::Nightly)
        .context("cannot build gt-ebpf: `cargo xtask setup` installs bpf-linker and the nightly's rust-src")
}
