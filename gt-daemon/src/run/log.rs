//! The kernel's events in the log.

use std::sync::Arc;

use aya_log::EbpfLogger;
use gt_common::connection::Evidence;
use tokio::time::{Duration, interval};
use tracing::{debug, info, warn};

use crate::{
    metrics::Health,
    observe::Feed,
    pods::owners::Owners,
    probes::{
        decode::{Known, Observed},
        events::Events,
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

/// Shows each event in the log, cuts that are proved at info level, the rest at debug level; and hands it on.
pub(super) async fn observe(
    events: Events,
    owners: Arc<Owners>,
    health: Arc<Health>,
    hz: u32,
    feed: Feed,
) -> std::io::Result<()> {
    events
        .forward(|event| match event {
            Ok(observed) => {
                tell(&observed, &owners, hz);
                feed.push(observed);
            }
            Err(error) => {
                health.undecodable();
                warn!(%error, "the ring buffer holds something that is no event");
            }
        })
        .await
}

fn tell(observed: &Observed, owners: &Owners, hz: u32) {
    let Observed { time_ns, what, slot, lane, local, remote, first, connection, .. } = observed;
    let cut = *first && connection.is_some_and(|known| known.evidence == Evidence::Socket);
    if !cut && !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let owner = owners.by_slot(*slot);
    let pod = owner.as_ref().map(|owner| owner.name.pod.as_str());
    let namespace = owner.as_ref().map(|owner| owner.name.namespace.as_str());
    match connection {
        Some(known) if *first => {
            let ms = |jiffies: u32| u64::from(jiffies) * 1000 / u64::from(hz.max(1));
            let read_ms = known.since_read.map(ms);
            let sent_ms = ms(known.since_sent);
            let Known { how, phase, evidence, protocol, hc, unread, unsent, unacked, received, sent, .. } =
                known;
            if cut {
                info!(
                    pod, namespace, ?how, ?phase, ?hc, %local, %remote, read_ms, sent_ms, unread, unsent, unacked, received,
                    sent, "cut: a connection ended with a request in flight"
                );
            } else {
                debug!(
                    pod, namespace, ?how, ?phase, ?evidence, ?lane, ?protocol, ?hc, %local, %remote, read_ms, sent_ms,
                    unread, unsent, unacked, received, sent, "teardown"
                );
            }
        }
        _ => debug!(pod, namespace, ?what, ?lane, %local, %remote, time_ns, "event"),
    }
}
