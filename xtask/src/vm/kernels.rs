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

/// All of them, oldest first.
pub const KERNELS: &[Kernel] =
    &[Kernel { name: "6.1", suite: "bookworm", package: "linux-image-cloud-amd64" }];
