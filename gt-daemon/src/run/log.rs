//! The kernel's events in the log.

use std::sync::{Arc, atomic::Ordering};

use aya_log::EbpfLogger;
use tokio::time::{Duration, interval};
use tracing::{debug, warn};

use crate::{
    correlate::torn::Torn,
    observe::{Board, Feed},
    pods::owners::Owners,
    probes::{
        decode::{Known, Observed},
        events::{Events, Next},
    },
};

/// Passes the kernel side's debug messages on.
pub(super) async fn show<T: log::Log>(messages: Option<EbpfLogger<T>>) {
    const PERIOD: Duration = Duration::from_millis(500);

    let Some(mut messages) = messages else { return std::future::pending().await };
    let mut ticks = interval(PERIOD);
    loop {
        ticks.tick().await;
        messages.flush();
    }
}

/// Hands each event on, and shows it in the log at debug level, but for teardowns of user traffic: the observer tells of
/// those when they are judged.
pub(super) async fn observe(
    events: Events,
    owners: Arc<Owners>,
    board: Arc<Board>,
    feed: Feed,
) -> std::io::Result<()> {
    events
        .forward(|event| match event {
            Ok(next) => {
                if let Next::Event(observed) = &next {
                    tell(observed, &owners);
                }
                feed.push(next);
            }
            Err(error) => {
                board.undecodable.fetch_add(1, Ordering::Relaxed);
                warn!(%error, "the ring buffer holds something that is no event");
            }
        })
        .await
}

fn tell(observed: &Observed, owners: &Owners) {
    let Observed { time_ns, what, slot, lane, local, remote, first, connection, .. } = observed;
    if !tracing::enabled!(tracing::Level::DEBUG) || Torn::of(observed).is_some() {
        return;
    }
    let owner = owners.by_slot(*slot);
    let pod = owner.as_ref().map(|owner| owner.name.pod.as_str());
    let namespace = owner.as_ref().map(|owner| owner.name.namespace.as_str());
    match connection {
        Some(Known { how, phase, protocol, received, sent, .. }) if *first => {
            debug!(
                pod, namespace, ?how, ?phase, ?lane, ?protocol, %local, %remote, received, sent, "teardown"
            );
        }
        _ => debug!(pod, namespace, ?what, ?lane, %local, %remote, time_ns, "event"),
    }
}
