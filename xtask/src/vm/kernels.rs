//! The kernels that gt is tried on in a guest. A new one is a new row.

/// A kernel of the distribution.
#[derive(Debug)]
pub struct Kernel {
    /// What `--kernel` calls it.
    pub name: &'static str,
    /// The suite of the archive that has it.
    pub suite: &'static str,
    /// The package that depends on the newest image.
    pub package: &'static str,
}

const fn cloud(name: &'static str, suite: &'static str) -> Kernel {
    Kernel { name, suite, package: "linux-image-cloud-amd64" }
}

/// All of them, oldest first.
pub const KERNELS: &[Kernel] = &[
    cloud("5.10", "bullseye"),
    cloud("6.1", "bookworm"),
    cloud("6.12", "trixie"),
    cloud("7.x", "trixie-backports"),
];
