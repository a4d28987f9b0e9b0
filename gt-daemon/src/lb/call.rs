//! One question to an LB and its whole answer, within limits.

use std::{convert::Infallible, io, time::Duration};

use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::{
    Request, StatusCode,
    body::Bytes,
    client::conn::http1,
    header::{AUTHORIZATION, HOST, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
    time::timeout,
};

use super::{
    form::{self, Malformed},
    row::Row,
    source::{Source, Way},
};
use crate::clock::Moment;

/// Bytes of an answer's status line and headers together.
const MAX_HEAD: usize = 16 << 10;

/// What HAProxy's command socket is asked.
const QUESTION: &[u8] = b"show stat\n";

/// What one call may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the first thought of connecting to the last byte.
    pub time: Duration,
    /// Bytes of the answer: 400 a server, or 10,000 with the built-in exporter.
    pub body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(2), body: 16 << 20 }
    }
}

/// A whole answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) rows: Vec<Row>,
    /// Just before the question was written: what was answered was so at some time from here ..
    pub(super) asked: Moment,
    /// .. to here.
    pub(super) answered: Moment,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("cannot connect ({0}); check its address, and that it may be reached from here")]
    Connect(io::Error),
    #[error("the connection broke ({0}); it is tried again")]
    Io(#[from] io::Error),
    #[error("no complete answer within {} ms; it is tried again", .0.as_millis())]
    Slow(Duration),
    #[error("the answer is longer than {0} bytes; is this the right address?")]
    Long(usize),
    #[error("it wants a user and a password: http://USER:PASSWORD@HOST:PORT/PATH")]
    Unauthorized,
    #[error("it answered {0}; is this the right path?")]
    Status(StatusCode),
    #[error("no valid HTTP answer ({0}); is this the right port?")]
    Protocol(Box<dyn std::error::Error + Send + Sync>),
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// Asks once, by a connection of its own.
pub(super) async fn ask(source: &Source, limits: Limits) -> Result<Answer, Failure> {
    let Limits { time, body } = limits;
    let answered = async {
        match &source.way {
            Way::Http { address, path, authorization } => {
                let stream = TcpStream::connect(address).await.map_err(Failure::Connect)?;
                get(stream, address, path, authorization.as_deref(), body).await
            }
            Way::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(Failure::Connect)?;
                command(stream, body).await
            }
            Way::Tcp(address) => {
                let stream = TcpStream::connect(address).await.map_err(Failure::Connect)?;
                command(stream, body).await
            }
        }
    };
    timeout(time, answered).await.unwrap_or(Err(Failure::Slow(time)))
}

async fn get(
    stream: TcpStream,
    host: &str,
    path: &str,
    authorization: Option<&str>,
    max: usize,
) -> Result<Answer, Failure> {
    let protocol = |error: hyper::Error| Failure::Protocol(error.into());
    let shaken = http1::Builder::new().max_buf_size(MAX_HEAD).handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(protocol)?;
    let mut request = Request::get(path).header(HOST, host).header(USER_AGENT, "gt-daemon");
    if let Some(authorization) = authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| Failure::Protocol(error.into()))?;
    let asked = Moment::now();
    let exchange = async {
        let response = sender.send_request(request).await.map_err(protocol)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED => return Err(Failure::Unauthorized),
            status => return Err(Failure::Status(status)),
        }
        match Limited::new(response.into_body(), max).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(Failure::Long(max)),
            Err(error) => Err(Failure::Protocol(error)),
        }
    };
    // It drives the exchange, which ends with its error; its own end is none.
    let driven = async {
        let _told_by_the_exchange = connection.await;
        std::future::pending::<Infallible>().await
    };
    let body = tokio::select! {
        body = exchange => body?,
        never = driven => match never {},
    };
    Ok(Answer { asked, answered: Moment::now(), rows: form::read(&body, false)? })
}

async fn command(mut stream: impl AsyncRead + AsyncWrite + Unpin, max: usize) -> Result<Answer, Failure> {
    let asked = Moment::now();
    stream.write_all(QUESTION).await?;
    let mut body = Vec::new();
    let most = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    stream.take(most).read_to_end(&mut body).await?;
    if body.len() > max {
        return Err(Failure::Long(max));
    }
    Ok(Answer { asked, answered: Moment::now(), rows: form::read(&body, true)? })
}
