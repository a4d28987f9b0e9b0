//! What the task does when it did not run for a while, or when UTC was set.

use tracing::warn;

use super::Observer;
use crate::{
    clock::Moment,
    observe::{pod::PodState, pulse::Beat},
};

impl Observer {
    /// To be done before anything is judged by the time that has passed.
    pub(super) fn look_at_the_clocks(&mut self, now: Moment) {
        let Beat { stalled_us, set_us } = self.pulse.beat(now);
        if let Some(length_us) = stalled_us {
            let seconds = length_us / 1_000_000;
            warn!(
                seconds,
                "gt did not run: it was stopped, or the machine had no time for it. Counts are right; drains that went on are not \
                 judged as if they had been seen"
            );
            self.drains.stalled(length_us, now);
        }
        if let Some(by_us) = set_us {
            warn!(
                by_ms = by_us / 1_000,
                "the clock was set: what is known of health sidecars and load balancers is forgotten and asked anew, and drains that \
                 go on have two records, up to now and from now on"
            );
            self.pods.values_mut().for_each(PodState::clock_was_set);
            self.joins().clock_was_set();
            self.lb.clock_was_set();
            self.drains.clock_was_set(by_us, now);
        }
    }
}
