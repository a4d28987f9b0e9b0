//! How a pod is, put together from what is known of it. Pure.

use gt_common::{
    connection::{HcState, Lane},
    counters::Counters,
};

use super::{kernel::open, pod::PodState};
use crate::{
    api::message::{Connections, HcStatus, Open, PodStatus},
    clock::Moment,
    correlate::{Joined, Joins},
    drain::{
        fact::{Hc, stamp},
        follow::Drains,
        intervals::Intervals,
    },
};

/// What is known of a pod, `counters` being what the kernel counted and `intervals` those of its drain.
pub(super) fn status(
    state: &PodState,
    joined: Option<&Joined>,
    joins: &Joins,
    drains: &Drains,
    (counters, intervals): (Option<&Counters>, Intervals),
    now: Moment,
) -> PodStatus {
    let pod = &state.followed.pod;
    let shown = state.shown(now);
    let envoy = shown.as_ref().and_then(|shown| shown.envoy);
    let (rsts_sent, rsts_received) = counters.map(rsts).unwrap_or_default();
    PodStatus {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        uid: state.followed.uid.to_string(),
        node: None,
        now: stamp(now.utc_us),
        gone: state.followed.gone,
        hc: shown.and_then(|shown| shown.hc).map(|hc| hc_status(state, hc.state, now)),
        connections: counters.map(connections),
        downstream: envoy.and_then(|envoy| envoy.downstream_rq_active),
        upstream: envoy.and_then(|envoy| envoy.upstream_rq_active),
        lb: None,
        cuts: joined.map_or(0, |joined| cuts(joins, joined)),
        rsts_sent,
        rsts_received,
        drain_began: drains.began(&state.followed.uid).map(stamp),
        intervals,
    }
}

fn hc_status(state: &PodState, now_in: HcState, now: Moment) -> HcStatus {
    let known = Hc::of(now_in);
    // A state that is not known has no beginning.
    let since = known.and_then(|_| state.changes().last().map(|change| stamp(change.at_us)));
    let lb_told = state.shows_up(now).map(|is_up| if is_up { 200 } else { 503 });
    HcStatus { state: known, since, lb_told }
}

fn connections(counters: &Counters) -> Connections {
    let of = |lane| {
        let (active, closing) = open(counters, lane);
        Open { active, closing }
    };
    Connections {
        data: of(Lane::Data),
        health: of(Lane::Health),
        admin: of(Lane::Admin),
        outbound: of(Lane::Outbound),
        loopback: of(Lane::Loopback),
    }
}

fn rsts(counters: &Counters) -> (u64, u64) {
    let total = counters.total();
    (total.rst_sent.iter().sum(), total.rst_received.iter().sum())
}

/// Cuts that were counted for its name.
fn cuts(joins: &Joins, joined: &Joined) -> u64 {
    let names = joined.slots.iter().filter_map(|(_, name)| joins.counted().names().get(name));
    names.flat_map(|counts| counts.cuts.values()).sum()
}
