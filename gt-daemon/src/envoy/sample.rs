//! What one look at Envoy told.

use super::{stat::Stat, sums::Sums};
use crate::clock::Moment;

/// Values and the call they came by. They were true at some time between its beginning and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read<T> {
    pub begun: Moment,
    pub ended: Moment,
    pub values: T,
}

/// One look. Gauges and counters come by calls of their own, the gauges' first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Counters of two samples may be compared when their epochs are equal: else Envoy was restarted or rows
    /// vanished in between, or it cannot be told.
    pub epoch: u64,
    pub gauges: Read<Gauges>,
    /// `None` when this look was at gauges only.
    pub counters: Option<Read<Counters>>,
}

/// What is going on now. Each `None` is unknown: Envoy keeps no such stat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Requests in flight from clients, over the listeners clients use.
    pub downstream_rq_active: Option<u64>,
    pub downstream_cx_active: Option<u64>,
    /// Requests in flight to services, over all clusters but Envoy's and Istio's own.
    pub upstream_rq_active: Option<u64>,
    /// `false` once Envoy was told to fail its health check.
    pub live: Option<bool>,
    pub state: Option<ServerState>,
    /// As of the last flush of stats, up to five seconds ago.
    pub uptime_seconds: Option<u64>,
    /// Listeners that were replaced or taken away and still have connections.
    pub listeners_draining: Option<u64>,
}

impl Gauges {
    /// Requests in flight on both sides together; unknown unless both are known.
    #[must_use]
    pub fn active(&self) -> Option<u64> {
        Some(self.downstream_rq_active?.saturating_add(self.upstream_rq_active?))
    }
}

/// `server.state` (envoy.admin.v3.ServerInfo.State); up to five seconds late, unlike `live`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    Live,
    Draining,
    PreInitializing,
    Initializing,
}

impl ServerState {
    fn of(value: u64) -> Option<Self> {
        match value {
            0 => Some(Self::Live),
            1 => Some(Self::Draining),
            2 => Some(Self::PreInitializing),
            3 => Some(Self::Initializing),
            _ => None,
        }
    }
}

/// Counted since Envoy's start. Each `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub downstream_rq_total: Option<u64>,
    pub downstream_cx_total: Option<u64>,
    /// Clients' connections that ended; counted after what their end cut is.
    pub downstream_cx_destroy: Option<u64>,
    /// Clients' connections that ended with a request in flight: all, by Envoy, by the peer.
    pub downstream_cx_destroy_active_rq: Option<u64>,
    pub downstream_cx_destroy_local_active_rq: Option<u64>,
    pub downstream_cx_destroy_remote_active_rq: Option<u64>,
    /// Connections closed because Envoy drains.
    pub downstream_cx_drain_close: Option<u64>,
    /// Requests reset by the peer (on HTTP/1 by the end of its connection), and by Envoy.
    pub downstream_rq_rx_reset: Option<u64>,
    pub downstream_rq_tx_reset: Option<u64>,
    /// Connections to services that ended with a request in flight: by Envoy, by the service.
    pub upstream_cx_destroy_local_with_active_rq: Option<u64>,
    pub upstream_cx_destroy_remote_with_active_rq: Option<u64>,
    pub upstream_rq_rx_reset: Option<u64>,
    pub upstream_rq_tx_reset: Option<u64>,
    /// Listeners that stopped to listen: more than zero after `POST /drain_listeners`.
    pub listener_stopped: Option<u64>,
}

/// Defines the walk over a struct's fields in one place.
macro_rules! each_counter {
    ($visit:ident) => {
        $visit! {
            downstream_rq_total: DownstreamRqTotal,
            downstream_cx_total: DownstreamCxTotal,
            downstream_cx_destroy: DownstreamCxDestroy,
            downstream_cx_destroy_active_rq: DownstreamCxDestroyActiveRq,
            downstream_cx_destroy_local_active_rq: DownstreamCxDestroyLocalActiveRq,
            downstream_cx_destroy_remote_active_rq: DownstreamCxDestroyRemoteActiveRq,
            downstream_cx_drain_close: DownstreamCxDrainClose,
            downstream_rq_rx_reset: DownstreamRqRxReset,
            downstream_rq_tx_reset: DownstreamRqTxReset,
            upstream_cx_destroy_local_with_active_rq: UpstreamCxDestroyLocalWithActiveRq,
            upstream_cx_destroy_remote_with_active_rq: UpstreamCxDestroyRemoteWithActiveRq,
            upstream_rq_rx_reset: UpstreamRqRxReset,
            upstream_rq_tx_reset: UpstreamRqTxReset,
            listener_stopped: ListenerStopped,
        }
    };
}

impl Counters {
    /// What was counted since `earlier`, a sample of the same epoch; unknown where either is.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let difference = |now: Option<u64>, before: Option<u64>| now?.checked_sub(before?);
        macro_rules! subtract {
            ($($field:ident: $stat:ident,)*) => {
                Self { $($field: difference(self.$field, earlier.$field),)* }
            };
        }
        each_counter!(subtract)
    }
}

impl From<&Sums> for Counters {
    fn from(sums: &Sums) -> Self {
        macro_rules! take {
            ($($field:ident: $stat:ident,)*) => {
                Self { $($field: sums.get(Stat::$stat),)* }
            };
        }
        each_counter!(take)
    }
}

impl From<&Sums> for Gauges {
    fn from(sums: &Sums) -> Self {
        Self {
            downstream_rq_active: sums.get(Stat::DownstreamRqActive),
            downstream_cx_active: sums.get(Stat::DownstreamCxActive),
            upstream_rq_active: sums.get(Stat::UpstreamRqActive),
            live: sums.get(Stat::ServerLive).map(|live| live > 0),
            state: sums.get(Stat::ServerState).and_then(ServerState::of),
            uptime_seconds: sums.get(Stat::ServerUptime),
            listeners_draining: sums.get(Stat::ListenersDraining),
        }
    }
}

impl Sample {
    /// Whether Envoy is being drained: told to fail its health check, or its listeners stopped. Unknown when no
    /// stat tells; a gentle drain (`drain_listeners?graceful`) shows only at its end.
    #[must_use]
    pub fn drains(&self) -> Option<bool> {
        let gauges = &self.gauges.values;
        let stopped = self.counters.and_then(|counters| counters.values.listener_stopped);
        let signs = [
            gauges.live.map(|live| !live),
            gauges.state.map(|state| state == ServerState::Draining),
            stopped.map(|stopped| stopped > 0),
        ];
        signs.into_iter().flatten().reduce(|one, other| one || other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises differences, so that unknown stays unknown and nothing wraps.
    #[test]
    fn differences() {
        let before =
            Counters { downstream_rq_total: Some(3), downstream_rq_rx_reset: Some(5), ..Counters::default() };
        let after =
            Counters { downstream_rq_total: Some(7), downstream_rq_rx_reset: Some(4), ..Counters::default() };
        let since = after.since(&before);
        assert_eq!((since.downstream_rq_total, since.downstream_rq_rx_reset), (Some(4), None));
        assert_eq!(since.listener_stopped, None);
    }

    /// Exercises the signs of a drain, so that one is enough and none is unknown.
    #[test]
    fn signs_of_a_drain() {
        let moment = Moment::default();
        let sample = |live, state, stopped| Sample {
            epoch: 0,
            gauges: Read {
                begun: moment,
                ended: moment,
                values: Gauges { live, state, ..Gauges::default() },
            },
            counters: Some(Read {
                begun: moment,
                ended: moment,
                values: Counters { listener_stopped: stopped, ..Counters::default() },
            }),
        };
        assert_eq!(sample(None, None, None).drains(), None);
        assert_eq!(sample(Some(true), Some(ServerState::Live), Some(0)).drains(), Some(false));
        assert_eq!(sample(Some(false), Some(ServerState::Live), None).drains(), Some(true));
        assert_eq!(sample(Some(true), Some(ServerState::Draining), None).drains(), Some(true));
        assert_eq!(sample(Some(true), None, Some(2)).drains(), Some(true));
    }

    /// Exercises the sum of both sides, so that half of it is no sum.
    #[test]
    fn both_sides() {
        let gauges =
            |down, up| Gauges { downstream_rq_active: down, upstream_rq_active: up, ..Gauges::default() };
        assert_eq!(gauges(Some(1), Some(2)).active(), Some(3));
        assert_eq!(gauges(Some(0), None).active(), None);
    }
}
