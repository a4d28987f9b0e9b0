//! One Envoy over time: what was learned of it, and whether its counters go on. Pure, fed with answers.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    catalogue::Catalogue,
    continuity::Continuity,
    form::Malformed,
    query::Question,
    sample::Sample,
    scope::Ignored,
    stat::{Kind, Stat},
    sums::Sums,
};

/// Learning again costs Envoy what twenty looks cost: while stats are missing it is done with growing pauses.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// An answer, as far as this goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    pub(super) body: &'a [u8],
    /// Monotonic nanoseconds of the call's end.
    pub(super) at_ns: u64,
    /// The same number means the same process.
    pub(super) connection: u64,
}

/// When to ask for everything again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Learning {
    Now,
    At(Instant),
    Done,
}

/// What is known of one pod's Envoy.
#[derive(Debug)]
pub(super) struct Session {
    ignored: Ignored,
    epoch: u64,
    catalogue: Catalogue,
    continuity: Continuity,
    learning: Learning,
    pause: Duration,
    /// Whether an answer showed that more has to be learned.
    incomplete: bool,
}

impl Session {
    pub(super) fn new(ignored: Ignored) -> Self {
        Self {
            ignored,
            epoch: 0,
            catalogue: Catalogue::default(),
            continuity: Continuity::default(),
            learning: Learning::Now,
            pause: FIRST_PAUSE,
            incomplete: false,
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the next look must leave nothing out.
    pub(super) fn must_learn(&self, now: Instant) -> bool {
        match self.learning {
            Learning::Now => true,
            Learning::At(due) => now >= due,
            Learning::Done => false,
        }
    }

    /// Adds up an answer, and says what its missing rows mean.
    pub(super) fn take(&mut self, question: &Question, told: Told<'_>) -> Result<Sums, Malformed> {
        let mut sums = Sums::read(question.form, told.body, &self.ignored)?;
        let mut same = true;
        if question.kinds.contains(Kind::Gauge) {
            same &= self.continuity.gauges(told.connection, told.at_ns, sums.get(Stat::ServerUptime));
        }
        if question.kinds.contains(Kind::Counter) {
            same &= self.continuity.counters(told.connection, std::mem::take(&mut sums.counters));
        }
        if !same {
            self.epoch += 1;
            self.catalogue = Catalogue::default();
            self.learning = Learning::Now;
            self.pause = FIRST_PAUSE;
        }
        if question.used_only {
            self.incomplete |= !self.catalogue.complete(question.kinds, &mut sums);
        } else {
            self.catalogue.learn(question.kinds, &mut sums);
        }
        Ok(sums)
    }

    /// A look is complete: decides when to learn again. `full` is what [`Self::must_learn`] said before it.
    pub(super) fn finish(&mut self, now: Instant, full: bool, sample: &Sample) {
        let incomplete = std::mem::take(&mut self.incomplete) || misses(sample);
        match self.learning {
            // A look that was told to learn has; what it found to be missing is looked for later.
            Learning::Now if !full => {}
            Learning::Now | Learning::At(_) if full => {
                self.learning = if incomplete { self.later(now) } else { Learning::Done };
            }
            Learning::Done if incomplete => self.learning = self.later(now),
            Learning::Now | Learning::At(_) | Learning::Done => {}
        }
    }

    fn later(&mut self, now: Instant) -> Learning {
        let due = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Learning::At(due)
    }
}

/// Whether a look lacks what the judgement of a cut rests on. A stat that Envoy does not keep stays away; one of a
/// listener that is yet to come does not.
fn misses(sample: &Sample) -> bool {
    let gauges = &sample.gauges.values;
    let counters = sample.counters.map(|counters| counters.values);
    gauges.downstream_rq_active.is_none()
        || gauges.upstream_rq_active.is_none()
        || counters.is_some_and(|counters| {
            counters.downstream_cx_destroy_remote_active_rq.is_none()
                || counters.downstream_rq_rx_reset.is_none()
        })
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
