//! One daemon, and how it is reached.

use std::{path::PathBuf, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
};

use super::{cluster::Cluster, fault::Fault};

/// A connection of any kind.
pub(super) trait Line: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Line for T {}

/// The way to one daemon.
#[derive(Clone, Debug)]
pub enum Door {
    /// Its socket.
    Socket(PathBuf),
    /// `HOST:PORT`.
    Address(String),
    /// The daemon on a node of a cluster.
    Node { cluster: Arc<Cluster>, node: String },
}

impl Door {
    /// `http://HOST:PORT`, with or without a slash at the end.
    pub fn of_url(url: &str) -> Result<Self, Fault> {
        let wrong = || Fault::Url(url.to_owned());
        let address = url.strip_prefix("http://").ok_or_else(wrong)?;
        let address = address.strip_suffix('/').unwrap_or(address);
        let authority: http::uri::Authority = address.parse().map_err(|_| wrong())?;
        authority.port_u16().filter(|_| !address.contains('@')).ok_or_else(wrong)?;
        Ok(Self::Address(address.to_owned()))
    }

    /// How it is called in messages.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Socket(path) => path.display().to_string(),
            Self::Address(address) => format!("http://{address}"),
            Self::Node { node, .. } => format!("node {node}"),
        }
    }

    /// Connects.
    pub(super) async fn dial(&self) -> Result<Box<dyn Line>, Fault> {
        let failed = |cause| Fault::connect(self.name(), cause);
        match self {
            Self::Socket(path) => Ok(Box::new(UnixStream::connect(path).await.map_err(failed)?)),
            Self::Address(address) => {
                let stream = TcpStream::connect(address.as_str()).await.map_err(failed)?;
                stream.set_nodelay(true).map_err(failed)?;
                Ok(Box::new(stream))
            }
            Self::Node { cluster, node } => Ok(Box::new(cluster.dial(node).await?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises addresses, so that a wrong one is told before anything is dialled.
    #[test]
    fn urls() {
        for url in ["http://127.0.0.1:9465", "http://localhost:1/", "http://[::1]:9465"] {
            assert!(Door::of_url(url).is_ok(), "{url}");
        }
        for url in
            ["", "127.0.0.1:9465", "https://a:1", "http://a", "http://a:1/v1", "http://a@b:1", "http://a:x"]
        {
            assert!(Door::of_url(url).is_err(), "{url}");
        }
    }
}
