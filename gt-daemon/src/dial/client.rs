//! HTTP/1.1 GET on one kept connection to one port of one pod.

use std::{sync::Arc, time::Duration};

use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::{
    Request, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1::{self, SendRequest},
    header::HOST,
};
use hyper_util::rt::TokioIo;
use tokio::{task::AbortHandle, time::timeout};

use super::{DialError, Dialler, Target};
use crate::clock::Moment;

/// Bytes of an answer's status line and headers together.
const MAX_HEAD: usize = 16 << 10;

/// What one call may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the first thought of connecting to the last byte.
    pub time: Duration,
    /// Bytes of the answer's body.
    pub body: usize,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub body: Bytes,
    /// Just before the request was written; what the answer tells was true at some time from here ..
    pub begun: Moment,
    /// .. to here, just after its last byte.
    pub ended: Moment,
    /// Counts the connections of this client: the same number is the same process at the other end.
    pub connection: u64,
}

/// A call without an answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("GET {path} on port {port} of pod {pod}: {failure}")]
    Call { pod: Arc<str>, port: u16, path: String, failure: Failure },
}

impl CallError {
    /// Whether it was not made because nothing listens there.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Dial(error) if error.cause.is_refused())
    }
}

/// What went wrong on a connection.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("no complete answer within {} ms; it is tried again", .0.as_millis())]
    Slow(Duration),
    #[error("the answer is longer than {0} bytes: is this the right port?")]
    Long(usize),
    #[error("no valid HTTP answer ({0}): is this the right port?")]
    Protocol(Box<dyn std::error::Error + Send + Sync>),
}

/// Asks one port of one pod, one question after the other.
#[derive(Debug)]
pub struct Client {
    dialler: Dialler,
    target: Target,
    port: u16,
    connection: Option<Connection>,
    connections: u64,
}

#[derive(Debug)]
struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    driver: AbortHandle,
    number: u64,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Client {
    /// A client that has not connected yet.
    #[must_use]
    pub fn new(dialler: Dialler, target: Target, port: u16) -> Self {
        Self { dialler, target, port, connection: None, connections: 0 }
    }

    /// The port asked.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Asks for `path` (with its query, URL-encoded). After any failure the connection is closed, so that no
    /// late answer is taken for the next one.
    pub async fn get(&mut self, path: &str, limits: Limits) -> Result<Answer, CallError> {
        let outcome = timeout(limits.time, self.get_or_redial(path, limits.body)).await;
        outcome.unwrap_or_else(|_| Err(self.failed(path, Failure::Slow(limits.time)))).inspect_err(|_| {
            self.connection = None;
        })
    }

    /// The peer may close a kept connection just when it is used: then the question is asked once more.
    async fn get_or_redial(&mut self, path: &str, max_body: usize) -> Result<Answer, CallError> {
        if let Some(kept) = self.connection.take().filter(|kept| !kept.sender.is_closed()) {
            match ask(kept, &self.host(), path, max_body).await {
                Ok((answer, kept)) => {
                    self.connection = Some(kept);
                    return Ok(answer);
                }
                Err(Failure::Protocol(_)) => {}
                Err(failure) => return Err(self.failed(path, failure)),
            }
        }
        let fresh = self.dial(path).await?;
        match ask(fresh, &self.host(), path, max_body).await {
            Ok((answer, kept)) => {
                self.connection = Some(kept);
                Ok(answer)
            }
            Err(failure) => Err(self.failed(path, failure)),
        }
    }

    async fn dial(&mut self, path: &str) -> Result<Connection, CallError> {
        let stream = self.dialler.connect(&self.target, self.port).await?;
        // Questions are one small segment each: waiting to fill it would only delay them.
        let _slower_but_right = stream.set_nodelay(true);
        let shaken = http1::Builder::new().max_buf_size(MAX_HEAD).handshake(TokioIo::new(stream)).await;
        let (sender, driver) = shaken.map_err(|error| self.failed(path, Failure::Protocol(error.into())))?;
        let driver = tokio::spawn(async move {
            // An error here ends the request that waits, with that error.
            let _told_to_the_caller = driver.await;
        })
        .abort_handle();
        self.connections += 1;
        Ok(Connection { sender, driver, number: self.connections })
    }

    fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn failed(&self, path: &str, failure: Failure) -> CallError {
        // Queries are long and always the same.
        let path = path.split('?').next().unwrap_or_default().to_owned();
        CallError::Call { pod: Arc::clone(&self.target.pod), port: self.port, path, failure }
    }
}

/// One exchange; gives the connection back when it can be used again.
async fn ask(
    mut connection: Connection,
    host: &str,
    path: &str,
    max_body: usize,
) -> Result<(Answer, Connection), Failure> {
    let protocol = |error: hyper::Error| Failure::Protocol(error.into());
    connection.sender.ready().await.map_err(protocol)?;
    let request = Request::get(path)
        .header(HOST, host)
        .body(Empty::<Bytes>::new())
        .map_err(|error| Failure::Protocol(error.into()))?;
    let begun = Moment::now();
    let response = connection.sender.send_request(request).await.map_err(protocol)?;
    let status = response.status();
    let body = whole(response.into_body(), max_body).await?;
    let ended = Moment::now();
    let answer = Answer { status, body, begun, ended, connection: connection.number };
    Ok((answer, connection))
}

async fn whole(body: Incoming, max: usize) -> Result<Bytes, Failure> {
    match Limited::new(body, max).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Failure::Long(max)),
        Err(error) => Err(Failure::Protocol(error)),
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
