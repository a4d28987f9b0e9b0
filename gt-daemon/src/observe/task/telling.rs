//! What the task does for those who listen.

use std::sync::PoisonError;

use gt_common::{counters::Counters, owner::Slot};
use tracing::debug;

use super::Observer;
use crate::{
    api::desk::Request,
    clock::Moment,
    correlate::judged::Judged,
    observe::{
        slots::hold_slots,
        teller::{Sight, Teller},
    },
};

impl Observer {
    /// Answers what it is asked.
    pub(super) fn answer(&mut self, request: Request) {
        self.see(Moment::now(), |teller, sight| teller.request(request, sight));
        self.drains.listen(self.teller.is_heard());
    }

    /// Tells the facts that are new; with those that were judged just now, what is not judged yet, too.
    pub(super) fn spread(&mut self, judged: Option<&[Judged]>, now: Moment) {
        let over = self.drains.take_over();
        if !self.teller.is_heard() {
            return;
        }
        let news = self.drains.news();
        self.teller.tell(news, judged, &self.pods, now);
        for record in over {
            self.teller.over(&record, &self.pods);
        }
    }

    /// Tells how pods are that have changed.
    pub(super) fn tell_status(&mut self, now: Moment) {
        if !self.teller.is_heard() {
            return;
        }
        self.spread(None, now);
        self.see(now, Teller::tick);
        if !self.teller.is_heard() {
            self.drains.listen(false);
        }
    }

    /// Lets the teller look at what is known.
    fn see(&mut self, now: Moment, look: impl FnOnce(&mut Teller, Sight<'_>)) {
        let Self { parts, changes, generation, pods, drains, teller, .. } = self;
        let slots_stay = hold_slots(&parts.owners, changes, *generation);
        let counters = |slots: &[Slot]| -> Option<Counters> {
            slots_stay.as_ref()?;
            // A scrape meets the same error, and tells it.
            parts.kernel.counters(slots).inspect_err(|error| debug!(%error, "no counts for streams")).ok()
        };
        let joins = parts.joins.lock().unwrap_or_else(PoisonError::into_inner);
        let drains = drains.drains();
        look(teller, Sight { pods, drains, joins: &joins, board: &parts.board, counters: &counters, now });
    }
}
