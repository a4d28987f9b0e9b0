//! The kernels that gt is tried on in a guest, and what is withheld from it there. A new one is a new row.

/// A kernel of the distribution.
#[derive(Debug)]
pub struct Kernel {
    /// What `--kernel` calls it.
    pub name: &'static str,
    /// The suite of the archive that has it.
    pub suite: &'static str,
    /// The package that depends on the newest image.
    pub package: &'static str,
    /// How it is booted.
    pub boot: Boot,
}

/// What is special in a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// Nothing: all tests are for it.
    Usual,
    /// The controllers are in hierarchies of cgroup v1, cgroup v2 has none.
    Hybrid,
    /// Kernel lockdown in confidentiality mode.
    LockedDown,
}

impl Boot {
    /// What is added to the kernel's command line.
    pub(super) const fn append(self) -> &'static str {
        match self {
            Self::Usual | Self::Hybrid => "",
            Self::LockedDown => " lockdown=confidentiality",
        }
    }

    /// The tests that are for it, by a part of their names; `None` for all.
    #[must_use]
    pub const fn tests(self) -> Option<&'static str> {
        match self {
            Self::Usual => None,
            Self::Hybrid => Some("cgroups::"),
            Self::LockedDown => Some("input::locked_down"),
        }
    }

    /// What `/init` has to know.
    pub(super) const fn environment(self) -> &'static str {
        match self {
            Self::Usual | Self::LockedDown => "",
            Self::Hybrid => "GT_CGROUPS=hybrid\n",
        }
    }
}

const fn cloud(name: &'static str, suite: &'static str, boot: Boot) -> Kernel {
    Kernel { name, suite, package: "linux-image-cloud-amd64", boot }
}

/// All of them, oldest first.
pub const KERNELS: &[Kernel] = &[
    cloud("5.10", "bullseye", Boot::Usual),
    cloud("6.1", "bookworm", Boot::Usual),
    cloud("6.1-hybrid", "bookworm", Boot::Hybrid),
    cloud("6.1-lockdown", "bookworm", Boot::LockedDown),
    cloud("6.12", "trixie", Boot::Usual),
    cloud("7.x", "trixie-backports", Boot::Usual),
];
