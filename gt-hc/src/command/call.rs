//! `gt-hc state`, `close-lb`, `close` and `reopen`: one request each. An image made of this one binary has
//! no curl.

use super::{Client, ClientError};
use crate::{exit::Exit, say};

/// What to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    State,
    CloseLb,
    Close,
    Reopen,
}

/// Asks, and prints the state as JSON.
pub async fn call(client: Client, call: Call) -> Exit {
    let answer = match call {
        Call::State => client.state().await,
        Call::CloseLb => client.post("/close-lb").await,
        Call::Close => client.post("/close").await,
        Call::Reopen => client.post("/reopen").await,
    };
    let text = answer.map(|state| serde_json::to_string(&state));
    match text {
        Ok(Ok(text)) => {
            say::out(text);
            Exit::Done
        }
        Ok(Err(error)) => {
            say::err(format_args!("cannot write JSON: {error}"));
            Exit::Environment
        }
        Err(error @ ClientError::Refused(_)) => {
            say::err(error);
            Exit::Broken
        }
        Err(error) => {
            say::err(error);
            Exit::Environment
        }
    }
}
