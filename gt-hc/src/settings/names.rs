//! The names of the settings.

/// A setting of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    DrainTimeout,
    LbBuffer,
    PollInterval,
    Listen,
    EnvoyAdmin,
    IgnoreClusters,
}

impl Name {
    /// The environment variable; the first three are the runbook's.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            Self::DrainTimeout => "DRAIN_TIMEOUT",
            Self::LbBuffer => "LB_BUFFER",
            Self::PollInterval => "POLL_INTERVAL",
            Self::Listen => "GT_HC_LISTEN",
            Self::EnvoyAdmin => "GT_HC_ENVOY_ADMIN",
            Self::IgnoreClusters => "GT_HC_IGNORE_CLUSTERS",
        }
    }

    /// The flag.
    #[must_use]
    pub const fn flag(self) -> &'static str {
        match self {
            Self::DrainTimeout => "--drain-timeout",
            Self::LbBuffer => "--lb-buffer",
            Self::PollInterval => "--poll-interval",
            Self::Listen => "--listen",
            Self::EnvoyAdmin => "--envoy-admin",
            Self::IgnoreClusters => "--ignore-clusters",
        }
    }

    /// The value where nothing is set.
    #[must_use]
    pub const fn default(self) -> &'static str {
        match self {
            Self::DrainTimeout => "120",
            Self::LbBuffer => "10",
            Self::PollInterval => "2",
            Self::Listen => "0.0.0.0:18180",
            Self::EnvoyAdmin => "127.0.0.1:15000",
            Self::IgnoreClusters => "",
        }
    }
}
