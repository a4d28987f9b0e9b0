//! Why a daemon cannot be asked.

use std::{io, path::PathBuf};

use http::StatusCode;

/// Each names what was tried, what went wrong and what helps.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error(
        "no gt-daemon here: there is no socket {0}; on a node give --socket PATH, elsewhere --kubeconfig FILE or --url URL"
    )]
    Nowhere(PathBuf),
    #[error("cannot connect to gt-daemon at {door}: {cause}; {remedy}")]
    Connect { door: String, cause: io::Error, remedy: &'static str },
    #[error("{0:?} is no address of a gt-daemon; write http://HOST:PORT, such as http://127.0.0.1:9465")]
    Url(String),
    #[error("gt-daemon at {door} does not answer: {cause}")]
    Silent { door: String, cause: String },
    #[error("gt-daemon at {door} answered {status}: {error}")]
    Refused { door: String, status: StatusCode, error: String },
    #[error("what answers at {door} is no gt-daemon, or one of another version: {cause}")]
    Stranger { door: String, cause: String },
    #[error("{0}")]
    Unknown(String),
    #[error(transparent)]
    Cluster(#[from] super::cluster::ClusterError),
}

impl Fault {
    /// Of a connection that cannot be made.
    pub(super) fn connect(door: String, cause: io::Error) -> Self {
        let remedy = match cause.kind() {
            io::ErrorKind::PermissionDenied => "run this as root",
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
                "is it running? `gt-daemon run` says at its start where it serves consoles"
            }
            _ => "look at the daemon's log",
        };
        Self::Connect { door, cause, remedy }
    }
}
