//! What asking one kind of source takes, over all pods.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use prometheus_client::metrics::histogram::Histogram;

/// Bounds of the histogram, seconds: from what an idle sidecar takes to the limits of calls.
const SECONDS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

/// Counts calls; clones share the counts.
#[derive(Clone, Debug)]
pub struct Meter {
    took: Histogram,
    dropped: Arc<AtomicU64>,
}

impl Default for Meter {
    fn default() -> Self {
        Self { took: Histogram::new(SECONDS), dropped: Arc::default() }
    }
}

impl Meter {
    /// A call ended, with an answer or without one.
    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    pub(super) fn took(&self, ns: u64) {
        self.took.observe(ns as f64 / 1e9);
    }

    /// What a call told found no place with whoever wanted it.
    pub(super) fn dropped_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// How long calls took, in seconds.
    #[must_use]
    pub fn seconds(&self) -> &Histogram {
        &self.took
    }

    /// Answers, and reasons for none, that were dropped since the start.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
