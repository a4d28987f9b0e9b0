//! Lets the time of a recording go by.

use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::time::{Instant, sleep_until};

use super::{
    super::model::{Incoming, pod::micros},
    Recorded,
};
use crate::api::message::Message;

/// How fast a recording is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// So many times as fast as it happened.
    Times(f64),
    /// Without waiting.
    Max,
}

impl std::str::FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let times = text.parse().ok().filter(|times| (0.01..=10_000.0).contains(times));
        times
            .map(Self::Times)
            .ok_or_else(|| format!("{text:?} is no speed: use a number from 0.01 to 10000, or max"))
    }
}

/// A recording as a stream.
pub fn paced(recorded: Recorded, speed: Speed) -> impl Stream<Item = Incoming> + Unpin {
    let state = (recorded, None::<(Instant, i64)>);
    Box::pin(stream::unfold(state, move |(mut recorded, mut began)| async move {
        let incoming = recorded.next().await?;
        if let (Speed::Times(times), Some(at)) = (speed, instant(&incoming)) {
            let (start, first) = *began.get_or_insert_with(|| (Instant::now(), at));
            #[expect(clippy::cast_precision_loss, reason = "a length of time, as exact as a person sees")]
            let passed = at.saturating_sub(first).max(0) as f64 / 1e6 / times;
            if let Some(until) =
                Duration::try_from_secs_f64(passed).ok().and_then(|passed| start.checked_add(passed))
            {
                sleep_until(until).await;
            }
        }
        Some((incoming, (recorded, began)))
    }))
}

/// When a message was told, UTC microseconds, where it says so.
fn instant(incoming: &Incoming) -> Option<i64> {
    match incoming {
        Incoming::Message(Message::Hello { now, .. }) => micros(now),
        Incoming::Message(Message::Pod(status)) => micros(&status.now),
        Incoming::Message(Message::Fact { fact, .. }) => Some(fact.ts),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises speeds, so that none stands still or is no number.
    #[test]
    fn speeds() {
        assert_eq!("max".parse(), Ok(Speed::Max));
        assert_eq!("2.5".parse(), Ok(Speed::Times(2.5)));
        for wrong in ["0", "-1", "NaN", "inf", "fast", ""] {
            assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
        }
    }
}
