//! One question to a daemon: HTTP on a connection of its own.

use std::{io, time::Duration};

use http::{Request, StatusCode, header::HOST};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{
    Response,
    body::{Bytes, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{door::Door, fault::Fault};
use crate::api::routes;

/// How long an answer may take to begin, and a whole one to come.
const PATIENCE: Duration = Duration::from_secs(15);

/// Bytes of a whole answer.
const LONGEST: usize = 64 << 20;

/// Asks for a document.
pub async fn document<T: DeserializeOwned>(door: &Door, path: &str) -> Result<T, Fault> {
    let body = open(door, path).await?;
    let bytes = whole(door, body).await?;
    serde_json::from_slice(&bytes).map_err(|error| stranger(door, error.to_string()))
}

/// Asks, and gives the answer's body as it comes.
pub(super) async fn open(door: &Door, path: &str) -> Result<Incoming, Fault> {
    let answer = timeout(PATIENCE, ask(door, path)).await.unwrap_or_else(|_| Err(slow(door)))?;
    let status = answer.status();
    if status == StatusCode::OK {
        return Ok(answer.into_body());
    }
    let body = whole(door, answer.into_body()).await?;
    match serde_json::from_slice::<routes::Fault>(&body) {
        Ok(fault) => Err(Fault::Refused { door: door.name(), status, error: fault.error }),
        Err(error) => Err(stranger(door, format!("{status}, {error}"))),
    }
}

async fn ask(door: &Door, path: &str) -> Result<Response<Incoming>, Fault> {
    let line = door.dial().await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(line)).await.map_err(|error| stranger(door, error.to_string()))?;
    // An error here ends the answer, with that error; the end of the answer ends this.
    tokio::spawn(connection);
    let request = Request::get(path)
        .header(HOST, "localhost")
        .body(Empty::<Bytes>::new())
        .map_err(|error| stranger(door, error.to_string()))?;
    sender.send_request(request).await.map_err(|error| {
        if error.is_parse() {
            return stranger(door, error.to_string());
        }
        Fault::connect(door.name(), io::Error::other(error))
    })
}

async fn whole(door: &Door, body: Incoming) -> Result<Bytes, Fault> {
    let collected = timeout(PATIENCE, Limited::new(body, LONGEST).collect()).await;
    match collected.map_err(|_| slow(door))? {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => Err(Fault::Silent { door: door.name(), cause: error.to_string() }),
    }
}

fn slow(door: &Door) -> Fault {
    Fault::Silent { door: door.name(), cause: format!("nothing came within {} s", PATIENCE.as_secs()) }
}

fn stranger(door: &Door, cause: String) -> Fault {
    Fault::Stranger { door: door.name(), cause }
}
