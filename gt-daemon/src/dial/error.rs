//! Why a port of a pod was not reached.

use std::{io, sync::Arc};

/// A connection that was not made.
#[derive(Debug, thiserror::Error)]
#[error("cannot connect to port {port} of pod {pod}: {cause}; {}", .cause.remedy())]
pub struct DialError {
    pub pod: Arc<str>,
    pub port: u16,
    pub cause: Cause,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    #[error("this process may not enter the pod's network namespace, and the pod's address is not known")]
    Denied,
    #[error("neither the pod's network namespace nor its address is known")]
    Nowhere,
    #[error("nothing listens on it on the pod's loopback")]
    Refused,
    #[error(
        "this process may not enter the pod's network namespace, and at the pod's address the connection failed: {0}"
    )]
    OutsideFailed(io::Error),
    #[error("the thread that makes sockets in namespaces ended twice")]
    ThreadEnded,
    #[error("{0}")]
    Io(io::Error),
}

impl Cause {
    /// Whether nothing listens there, which is told at once and costs the pod nothing.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        match self {
            Self::Refused => true,
            Self::OutsideFailed(error) | Self::Io(error) => error.kind() == io::ErrorKind::ConnectionRefused,
            Self::Denied | Self::Nowhere | Self::ThreadEnded => false,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Denied => "give gt-daemon CAP_SYS_ADMIN, or a source of pods that knows their addresses",
            Self::Nowhere => "it is found once a process of the pod runs and its cgroup can be read",
            Self::Refused => "check that the container runs and that this is its port",
            Self::OutsideFailed(_) => {
                "give gt-daemon CAP_SYS_ADMIN: ports such as Envoy's 15000 listen on the pod's loopback only"
            }
            Self::ThreadEnded => {
                "it could not return to its own namespace: restart gt-daemon and report this"
            }
            Self::Io(_) => "it is tried again",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises the words, so that an error names pod, port, cause and remedy.
    #[test]
    fn errors_name_everything() {
        let outside = Cause::OutsideFailed(io::ErrorKind::ConnectionRefused.into());
        for (cause, word) in
            [(Cause::Denied, "CAP_SYS_ADMIN"), (Cause::Refused, "container"), (outside, "CAP_SYS_ADMIN")]
        {
            let error = DialError { pod: "ns/igw".into(), port: 15_000, cause }.to_string();
            assert!(error.contains("port 15000 of pod ns/igw") && error.contains(word), "{error}");
        }
    }
}
