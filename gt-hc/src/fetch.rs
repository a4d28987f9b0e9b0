//! One HTTP/1.1 request on a connection of its own, limited in time and size.

use std::{io, net::SocketAddr, pin::pin, time::Duration};

use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1,
    header::{CONNECTION, HOST},
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

use crate::seconds;

/// What to ask for.
#[derive(Clone, Debug)]
pub struct Fetch<'a> {
    pub address: SocketAddr,
    pub method: Method,
    /// Path and query, URL-encoded.
    pub path: &'a str,
    /// For everything, from connecting to the last byte.
    pub limit: Duration,
    /// Bytes of the answer's body.
    pub max_body: usize,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("no complete answer within {} s", seconds::show(*.0))]
    TooSlow(Duration),
    #[error("the answer has more than {0} bytes")]
    TooLong(usize),
    #[error("no valid HTTP answer: {0}")]
    Protocol(Box<dyn std::error::Error + Send + Sync>),
}

impl Fetch<'_> {
    /// Sends the request and gives status and body.
    pub async fn run(&self) -> Result<(StatusCode, Bytes), FetchError> {
        timeout(self.limit, self.exchange()).await.unwrap_or(Err(FetchError::TooSlow(self.limit)))
    }

    async fn exchange(&self) -> Result<(StatusCode, Bytes), FetchError> {
        let stream = TcpStream::connect(self.address).await.map_err(FetchError::Connect)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| FetchError::Protocol(error.into()))?;
        let request = Request::builder()
            .method(self.method.clone())
            .uri(self.path)
            .header(HOST, self.address.to_string())
            .header(CONNECTION, "close")
            .body(Empty::<Bytes>::new())
            .map_err(|error| FetchError::Protocol(error.into()))?;
        let mut answer = pin!(async {
            let response =
                sender.send_request(request).await.map_err(|error| FetchError::Protocol(error.into()))?;
            let status = response.status();
            Ok((status, self.body(response.into_body()).await?))
        });
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            // The peer has closed; what it sent before is still to be taken.
            _closed = connection => answer.await,
        }
    }

    async fn body(&self, body: Incoming) -> Result<Bytes, FetchError> {
        match Limited::new(body, self.max_body).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(FetchError::TooLong(self.max_body)),
            Err(error) => Err(FetchError::Protocol(error)),
        }
    }
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
