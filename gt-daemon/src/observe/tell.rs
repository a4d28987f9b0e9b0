//! What was judged, in the log: cuts at info level, other ends at debug level.

use tracing::{debug, info};

use crate::{
    correlate::{
        judged::Judged,
        torn::{Direction, Proof},
    },
    metrics::words,
    probes::decode::{Known, Observed},
};

/// One line for each; `hz`: jiffies in a second.
pub(super) fn tell(judged: &Judged, hz: u32) {
    if judged.again && judged.proof.is_none() {
        return;
    }
    let Judged { name, ending, proof, cause, hc, count, rst, last_told, .. } = judged;
    let (pod, namespace) = (name.pod.as_str(), name.namespace.as_str());
    let container = Some(name.container.as_str()).filter(|container| !container.is_empty());
    let (how, cause) = (ending.word(), cause.word());
    let hc = hc.map(|state| words::hc(state as u8));
    let rst = rst.map(Direction::word);
    let Some(torn) = &judged.torn else {
        let evidence = proof.map(Proof::word);
        let by = match proof {
            Some(Proof::L7) => "the proxy counts requests in flight that were cut",
            _ => {
                "the kernel counted a connection that ended with a request in flight, and its event was lost"
            }
        };
        return info!(pod, namespace, how, cause, hc, evidence, count, "cut: {by}");
    };
    let Observed { local, remote, .. } = torn.event;
    let Known { phase, protocol, unread, unsent, unacked, received, sent, since_read, since_sent, .. } =
        torn.known;
    let ms = |jiffies: u32| u64::from(jiffies) * 1000 / u64::from(hz.max(1));
    let (read_ms, sent_ms) = (since_read.map(ms), ms(since_sent));
    let Some(proof) = proof else {
        return debug!(
            pod, namespace, container, how, ?phase, ?protocol, hc, rst, %local, %remote, read_ms, sent_ms, unread, unsent,
            unacked, received, sent, "teardown"
        );
    };
    let evidence = proof.word();
    let what = match proof {
        Proof::Possible => "possible cut: a connection ended, perhaps with a request in flight",
        Proof::L7 | Proof::Socket => "cut: a connection ended with a request in flight",
    };
    let active = last_told.map(|(active, _)| active);
    let active_age_ms = last_told.map(|(_, age_ns)| age_ns / 1_000_000);
    info!(
        pod, namespace, container, how, evidence, cause, hc, rst, ?phase, ?protocol, %local, %remote, read_ms, sent_ms,
        unread, unsent, unacked, received, sent, active, active_age_ms,
        "{what}"
    );
}
