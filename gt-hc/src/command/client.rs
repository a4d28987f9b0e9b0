//! The server as its own pod sees it: requests by the loopback device.

use std::{net::SocketAddr, time::Duration};

use hyper::{Method, StatusCode, body::Bytes};

use crate::{
    answers::{RefusalBody, StateBody},
    fetch::{Fetch, FetchError},
};

/// The server answers at once; longer means that something is wrong with it.
const LIMIT: Duration = Duration::from_secs(5);

const MAX_BODY: usize = 64 << 10;

/// The running server.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub address: SocketAddr,
}

/// Why the server did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error(
        "no answer from gt-hc on {address}: {cause}; is `gt-hc run` the container's command, and GT_HC_LISTEN the same for both?"
    )]
    Unreachable { address: SocketAddr, cause: FetchError },
    #[error("{0}")]
    Refused(String),
    #[error("{address} answered {status}, which gt-hc does not: does another server have the port?")]
    Foreign { address: SocketAddr, status: StatusCode },
}

impl Client {
    /// The state now.
    pub async fn state(self) -> Result<StateBody, ClientError> {
        let (status, body) = self.fetch(Method::GET, "/state").await?;
        self.parse(status, &body)
    }

    /// Asks for a change of state.
    pub async fn post(self, path: &str) -> Result<StateBody, ClientError> {
        let (status, body) = self.fetch(Method::POST, path).await?;
        if status == StatusCode::CONFLICT
            && let Ok(refusal) = serde_json::from_slice::<RefusalBody>(&body)
        {
            return Err(ClientError::Refused(refusal.error));
        }
        self.parse(status, &body)
    }

    async fn fetch(self, method: Method, path: &str) -> Result<(StatusCode, Bytes), ClientError> {
        let address = self.address;
        Fetch { address, method, path, limit: LIMIT, max_body: MAX_BODY }
            .run()
            .await
            .map_err(|cause| ClientError::Unreachable { address, cause })
    }

    fn parse(self, status: StatusCode, body: &Bytes) -> Result<StateBody, ClientError> {
        serde_json::from_slice(body)
            .ok()
            .filter(|_| status == StatusCode::OK)
            .ok_or(ClientError::Foreign { address: self.address, status })
    }
}
