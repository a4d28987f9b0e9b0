//! What befell gt itself while it looked at a pod. Pure.

use std::mem;

use super::Pod;
use crate::drain::{
    fact::{Source, Timed},
    follow::Rules,
    news::Word,
    record::Record,
    voice::gap,
};

/// A drain of which the first part is in another record.
#[derive(Clone, Debug)]
pub(super) struct Interrupted {
    pub(super) why: String,
    /// What hc had told last of its drain, as of the interruption.
    pub(super) turn: Option<Timed>,
}

impl Pod {
    /// gt did not run for so long, microseconds, up to now.
    pub(in crate::drain) fn stalled(&mut self, length_us: i64, now: i64) {
        self.note(Word::Told, gap(now, Source::Pods, length_us, "gt itself did not run"));
    }

    /// UTC was set: it was `before` when it was `now`. What was noted by the old clock cannot be put into one order with what is
    /// noted by the new one, so the drain that goes on is recorded as far as it goes, and all begins anew.
    pub(in crate::drain) fn clock_was_set(
        &mut self,
        before: i64,
        now: i64,
        why: &str,
        rules: &Rules,
    ) -> Option<Record> {
        // Its last drain is over, and another one it does not have.
        if self.over.is_some() {
            return None;
        }
        let record = self.begun().and_then(|begun| {
            self.note(Word::Told, gap(before.max(begun), Source::Pods, 0, why));
            self.record(before, rules)
        });
        // It drains still, whoever tells of it next.
        let turn = self.hc_facts().rfind(|timed| timed.fact.is_sign()).map(|turn| Timed { ts: now, ..turn });
        let interrupted = record.is_some().then(|| Interrupted { why: why.to_owned(), turn });
        let news = mem::take(&mut self.news);
        let view = self.view.clone();
        *self = Self { news, interrupted, ..Self::new(&view, false, now) };
        record
    }
}
