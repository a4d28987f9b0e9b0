//! Follows one daemon's stream, and comes back to it when it went away.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::{sleep, timeout};

use super::{call, door::Door, events::Events, fault::Fault, messages::Teller};
use crate::{
    api::{ask::Ask, message::Message, routes::KEEP_ALIVE},
    clock::Moment,
    drain::fact::stamp,
};

/// A daemon that says nothing for so long is away: it says so every five seconds that it is there.
const SILENCE: Duration = KEEP_ALIVE.saturating_mul(3);

/// Pauses between tries to come back.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Whoever listens has gone.
struct Unheard;

/// Opens the stream: an error here is one of the question or of the way.
pub(super) async fn open(door: &Door, ask: &Ask) -> Result<Incoming, Fault> {
    call::open(door, &path(ask)).await
}

fn path(ask: &Ask) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(ask.query()).finish();
    format!("/v1/stream?{query}")
}

/// Hands on what an open stream says, and opens it again when it ends; until nobody listens.
pub(super) async fn follow(door: Door, ask: Ask, mut stream: Incoming, teller: Teller) {
    let mut node = None;
    loop {
        let why = match listen(&mut stream, &teller, &mut node).await {
            Ok(why) => why,
            Err(Unheard) => return,
        };
        let gap = Message::Gap { node: node.clone(), why, now: stamp(Moment::now().utc_us) };
        if teller.send(gap).await.is_err() {
            return;
        }
        let mut pause = FIRST_PAUSE;
        stream = loop {
            tokio::select! {
                () = teller.closed() => return,
                () = sleep(pause) => {}
            }
            if let Ok(stream) = open(&door, &ask).await {
                break stream;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        };
    }
}

/// Hands on until the stream ends; why it did.
async fn listen(
    stream: &mut Incoming,
    teller: &Teller,
    node: &mut Option<String>,
) -> Result<String, Unheard> {
    let mut events = Events::default();
    loop {
        let frame = tokio::select! {
            () = teller.closed() => return Err(Unheard),
            frame = timeout(SILENCE, stream.frame()) => frame,
        };
        let frame = match frame {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Ok(format!("the connection broke: {error}")),
            Ok(None) => return Ok("the daemon ended the stream".to_owned()),
            Err(_) => return Ok(format!("the daemon said nothing for {} s", SILENCE.as_secs())),
        };
        let Ok(bytes) = frame.into_data() else { continue };
        if let Err(error) = events.push(&bytes) {
            return Ok(error.to_string());
        }
        loop {
            let message = match events.next() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => return Ok(error.to_string()),
            };
            if let Message::Hello { node: told, .. } = &message {
                node.clone_from(told);
            }
            teller.send(message).await.map_err(|_| Unheard)?;
        }
    }
}
