//! Why a state changes: somebody asked, or a condition of the drain came true.

use std::fmt;

use super::State;

/// What asks for a change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// `POST /drain`.
    DrainRequested,
    /// SIGTERM came in OPEN.
    Sigterm,
    /// Envoy told that no request is in flight.
    ActiveZero,
    /// `POST /close-lb`.
    CloseLbRequested,
    /// The LB has had its time to notice the 503.
    LbBufferOver,
    /// `POST /close`.
    CloseRequested,
    /// The drain timeout passed with requests in flight.
    DrainTimeout,
    /// The drain timeout passed, and whether requests were in flight is not known.
    DrainTimeoutActiveUnknown,
    /// `POST /reopen`.
    ReopenRequested,
}

impl Cause {
    pub const ALL: [Self; 9] = [
        Self::DrainRequested,
        Self::Sigterm,
        Self::ActiveZero,
        Self::CloseLbRequested,
        Self::LbBufferOver,
        Self::CloseRequested,
        Self::DrainTimeout,
        Self::DrainTimeoutActiveUnknown,
        Self::ReopenRequested,
    ];

    /// The state asked for.
    #[must_use]
    pub const fn target(self) -> State {
        match self {
            Self::DrainRequested | Self::Sigterm => State::Draining,
            Self::ActiveZero | Self::CloseLbRequested => State::Closing,
            Self::LbBufferOver | Self::CloseRequested => State::Closed,
            Self::DrainTimeout | Self::DrainTimeoutActiveUnknown => State::Fault,
            Self::ReopenRequested => State::Open,
        }
    }

    /// The word for it in logs and in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::DrainRequested => "drain_requested",
            Self::Sigterm => "sigterm",
            Self::ActiveZero => "active_zero",
            Self::CloseLbRequested => "close_lb_requested",
            Self::LbBufferOver => "lb_buffer_over",
            Self::CloseRequested => "close_requested",
            Self::DrainTimeout => "drain_timeout",
            Self::DrainTimeoutActiveUnknown => "drain_timeout_active_unknown",
            Self::ReopenRequested => "reopen_requested",
        }
    }

    /// The path whose `POST` asks for this; `None` for what only the sidecar itself finds out.
    #[must_use]
    pub const fn path(self) -> Option<&'static str> {
        match self {
            Self::DrainRequested => Some("/drain"),
            Self::CloseLbRequested => Some("/close-lb"),
            Self::CloseRequested => Some("/close"),
            Self::ReopenRequested => Some("/reopen"),
            Self::Sigterm
            | Self::ActiveZero
            | Self::LbBufferOver
            | Self::DrainTimeout
            | Self::DrainTimeoutActiveUnknown => None,
        }
    }

    /// What a `POST` to `path` asks for.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.path() == Some(path))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path() {
            Some(path) => write!(f, "POST {path}"),
            None => f.write_str(self.word()),
        }
    }
}
