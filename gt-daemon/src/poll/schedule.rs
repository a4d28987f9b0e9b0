//! When to ask next: pure, time is an argument.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

/// From the beginning of one call to that of the next at least this many times the last call's duration.
const BUSY: u32 = 20;

/// The same at the two paces, in times of what a call costs: 1 % and 0.08 % of the source's time.
const FAST_COST: u32 = 100;
const SLOW_COST: u32 = 1_200;

/// What a call costs is the shortest duration of so many: waiting for a busy machine only makes calls longer.
const CALLS: usize = 8;

/// After an alarm the source is asked at the fast pace for this long: what the alarm was about may reach the
/// source's counts later than the alarm reaches us.
const AFTERMATH: Duration = Duration::from_secs(2);

/// How often a source is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// Nothing is expected to happen.
    #[default]
    Slow,
    /// A drain is under way.
    Fast,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// With an answer, to the question that is asked again and again.
    Usual,
    /// With an answer to a question that is asked seldom: what it cost says nothing about the next.
    Special,
    /// Nobody listens: the source was not there, and its not being there cost nobody anything.
    Refused,
    Failed,
}

/// The intervals of the two paces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intervals {
    pub slow: Duration,
    pub fast: Duration,
}

impl Default for Intervals {
    fn default() -> Self {
        Self { slow: Duration::from_secs(5), fast: Duration::from_millis(200) }
    }
}

/// The plan for one source.
#[derive(Clone, Debug)]
pub struct Schedule {
    intervals: Intervals,
    pace: Pace,
    /// When the last call began, and how long it took.
    last: Option<(Instant, Duration)>,
    /// How long the last calls that succeeded took.
    durations: VecDeque<Duration>,
    /// Calls that failed since one succeeded.
    failures: u32,
    /// Whether the last of them was refused.
    refused: bool,
    /// An alarm that no call begun later has answered yet.
    alarm: Option<Instant>,
    /// Until when an alarm makes the pace fast.
    aftermath: Option<Instant>,
}

impl Schedule {
    /// A plan whose first call is due at once.
    #[must_use]
    pub fn new(intervals: Intervals) -> Self {
        Self {
            intervals,
            pace: Pace::Slow,
            last: None,
            durations: VecDeque::with_capacity(CALLS),
            failures: 0,
            refused: false,
            alarm: None,
            aftermath: None,
        }
    }

    /// Sets the pace, from now on.
    pub fn pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Something happened that the source can explain: ask as soon as may be.
    pub fn alarm(&mut self, now: Instant) {
        self.alarm = Some(now);
        self.aftermath = Some(now + AFTERMATH);
    }

    /// A call ended. One that began before an alarm does not answer it.
    pub fn done(&mut self, begun: Instant, ended: Instant, call: Call) {
        let took = ended.saturating_duration_since(begun);
        self.last = Some((begun, took));
        if call == Call::Usual {
            if self.durations.len() >= CALLS {
                self.durations.pop_front();
            }
            self.durations.push_back(took);
        }
        let is_failed = matches!(call, Call::Refused | Call::Failed);
        self.failures = if is_failed { self.failures.saturating_add(1) } else { 0 };
        self.refused = call == Call::Refused;
        if self.alarm.is_some_and(|alarm| alarm <= begun) {
            self.alarm = None;
        }
    }

    /// Whether an alarm waits for an answer.
    #[must_use]
    pub fn is_alarmed(&self) -> bool {
        self.alarm.is_some()
    }

    /// The pace at this moment: fast also in the aftermath of an alarm.
    #[must_use]
    pub fn pace_at(&self, now: Instant) -> Pace {
        if self.aftermath.is_some_and(|until| now < until) { Pace::Fast } else { self.pace }
    }

    /// When the next call is due; `now` or earlier when it is due at once.
    #[must_use]
    pub fn due(&self, now: Instant) -> Instant {
        let Some((begun, took)) = self.last else { return now };
        let cost = self.durations.iter().min().copied().unwrap_or_default();
        let interval = match self.pace_at(now) {
            Pace::Slow => self.intervals.slow.max(cost.saturating_mul(SLOW_COST)),
            Pace::Fast => self.intervals.fast.max(cost.saturating_mul(FAST_COST)),
        };
        let rest = took.saturating_mul(BUSY);
        if self.failures > 0 {
            // A call that ran into its limit says little about the source's work, and must not blind us for
            // twenty times that limit; one that does so again and again is left alone for longer and longer.
            let doubled = |interval: Duration| interval.saturating_mul(1 << self.failures.min(8));
            if self.refused {
                // It may be about to start: it is found within as long again as it was missed, whatever the pace.
                let wait = doubled(self.intervals.fast).min(self.intervals.slow);
                let alarmed = self.alarm.map(|alarm| alarm.max(begun + self.intervals.fast));
                return alarmed.unwrap_or(begun + wait).min(begun + wait);
            }
            let doubled = doubled(interval);
            return begun + doubled.min(rest.max(self.intervals.slow));
        }
        let soonest = begun + rest;
        match self.alarm {
            Some(alarm) => soonest.max(alarm),
            None => soonest.max(begun + interval),
        }
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
