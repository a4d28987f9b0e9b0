//! What the views see of what is read inside pods.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use gt_common::connection::HcState;

use super::lb_board::LbBoard;
use crate::poll::Meter;

/// Shared by the observer, which writes, and the views.
#[derive(Debug, Default)]
pub struct Board {
    pods: Mutex<BTreeMap<Arc<str>, Shown>>,
    /// Calls to hc, and to Envoy, of all pods.
    pub hc: Meter,
    pub envoy: Meter,
    pub lb: LbBoard,
    /// Kernel events that the observer had no room for.
    pub(super) events_lost: Arc<AtomicU64>,
    /// Records of the ring that were no events.
    pub undecodable: AtomicU64,
    /// Runs of kernel programs that the kernel skipped, as far as it tells.
    pub skipped_runs: AtomicU64,
    pub(super) log_lost: AtomicU64,
    pub(super) log_unreadable: AtomicU64,
}

/// A pod with a health sidecar or an Envoy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub namespace: String,
    pub pod: String,
    /// Whether its source no longer names it.
    pub gone: bool,
    pub hc: Option<HcShown>,
    pub envoy: Option<EnvoyShown>,
}

/// A pod's health sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HcShown {
    /// `Unknown` also when several are possible.
    pub state: HcState,
    /// Whether it answered last time; `None` while it was not asked.
    pub up: Option<bool>,
}

/// A pod's Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvoyShown {
    /// Whether it answered last time; `None` while it was not asked.
    pub up: Option<bool>,
    /// Requests in flight as of the last look; `None` when that failed, or Envoy does not tell.
    pub downstream_rq_active: Option<u64>,
    pub upstream_rq_active: Option<u64>,
}

impl Board {
    /// The pods in which something is read, each name once: of an old and a new pod of one name the one that is
    /// there.
    #[must_use]
    pub fn pods(&self) -> Vec<Shown> {
        let mut by_name = BTreeMap::new();
        let pods = self.lock();
        for shown in pods.values() {
            let place = by_name.entry((&shown.namespace, &shown.pod)).or_insert(shown);
            if place.gone && !shown.gone {
                *place = shown;
            }
        }
        by_name.into_values().cloned().collect()
    }

    /// What was lost on the way to the observer, by where.
    #[must_use]
    pub fn lost(&self) -> [(&'static str, u64); 6] {
        [
            ("observe", self.events_lost.load(Ordering::Relaxed)),
            ("hc", self.hc.dropped()),
            ("envoy", self.envoy.dropped()),
            ("lb", self.lb.meter.dropped()),
            ("hc_log", self.log_lost.load(Ordering::Relaxed)),
            ("hc_log_line", self.log_unreadable.load(Ordering::Relaxed)),
        ]
    }

    pub(crate) fn show(&self, uid: &Arc<str>, shown: Shown) {
        self.lock().insert(Arc::clone(uid), shown);
    }

    pub(super) fn hide(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Shown>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises two pods of one name, so that a name has one set of values: those of the pod that is there.
    #[test]
    fn one_of_each_name() {
        let board = Board::default();
        let shown = |pod: &str, gone, state| Shown {
            namespace: "n".to_owned(),
            pod: pod.to_owned(),
            gone,
            hc: Some(HcShown { state, up: None }),
            envoy: None,
        };
        for (old, new) in [("1", "2"), ("4", "3")] {
            board.show(&old.into(), shown(old.max(new), true, HcState::Closed));
            board.show(&new.into(), shown(old.max(new), false, HcState::Open));
        }
        let states: Vec<_> = board.pods().iter().map(|pod| pod.hc.map(|hc| hc.state)).collect();
        assert_eq!(states, [Some(HcState::Open), Some(HcState::Open)]);
        for uid in ["1", "2", "3"] {
            board.hide(uid);
        }
        assert_eq!(board.pods(), [shown("4", true, HcState::Closed)]);
    }
}
