//! One question to Envoy's admin server.

use std::{net::SocketAddr, time::Duration};

use hyper::{Method, StatusCode};

use super::{
    Active, Ignored,
    active::{self, CountError},
};
use crate::fetch::{Fetch, FetchError};

/// An answer takes milliseconds. Envoy's main thread may be busy for longer with new configuration; one that
/// does not answer within this time tells nothing this time.
const LIMIT: Duration = Duration::from_secs(5);

/// Two rows each for some ten thousand clusters.
const MAX_BODY: usize = 8 << 20;

/// Envoy's admin server.
#[derive(Clone, Debug)]
pub struct Admin {
    pub address: SocketAddr,
    pub ignored: Ignored,
}

/// Why the count is not known. None of these is a zero.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read Envoy's admin server {address}: {cause}")]
    Unreachable { address: SocketAddr, cause: FetchError },
    #[error("Envoy's admin server {address} answered {status}: is this Envoy's?")]
    Status { address: SocketAddr, status: StatusCode },
    #[error(transparent)]
    Count(#[from] CountError),
}

impl Admin {
    /// Reads the requests in flight, in at most five seconds.
    pub async fn read(&self) -> Result<Active, ReadError> {
        let address = self.address;
        let fetch =
            Fetch { address, method: Method::GET, path: active::QUERY, limit: LIMIT, max_body: MAX_BODY };
        let (status, body) = fetch.run().await.map_err(|cause| ReadError::Unreachable { address, cause })?;
        if status != StatusCode::OK {
            return Err(ReadError::Status { address, status });
        }
        Ok(active::count(&body, &self.ignored)?)
    }
}
