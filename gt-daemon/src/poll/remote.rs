//! How one task tells another, which asks a source, to hurry.

use std::sync::Arc;

use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until},
};

use super::schedule::{Call, Intervals, Pace, Schedule};

/// Held by whoever knows when to hurry. When it is dropped the ticks end.
#[derive(Debug)]
pub struct Remote {
    alarm: Arc<Notify>,
    pace: watch::Sender<Pace>,
}

/// The task's side.
#[derive(Debug)]
pub struct Ticks {
    schedule: Schedule,
    alarm: Arc<Notify>,
    pace: watch::Receiver<Pace>,
}

/// Both sides; the first tick is at once, the pace slow.
#[must_use]
pub fn ticks(intervals: Intervals) -> (Remote, Ticks) {
    let alarm = Arc::new(Notify::new());
    let (sender, receiver) = watch::channel(Pace::Slow);
    let schedule = Schedule::new(intervals);
    (Remote { alarm: Arc::clone(&alarm), pace: sender }, Ticks { schedule, alarm, pace: receiver })
}

impl Remote {
    /// Something happened that the source can explain: ask as soon as may be. Alarms that come before the
    /// task can ask are one.
    pub fn alarm(&self) {
        self.alarm.notify_one();
    }

    /// Fast while the pod drains.
    pub fn pace(&self, pace: Pace) {
        self.pace.send_if_modified(|current| std::mem::replace(current, pace) != pace);
    }
}

impl Ticks {
    /// Waits until the source may be asked. `false` when the remote is gone.
    pub async fn next(&mut self) -> bool {
        loop {
            let due = self.schedule.due(Instant::now());
            tokio::select! {
                biased;
                () = self.alarm.notified() => self.schedule.alarm(Instant::now()),
                changed = self.pace.changed() => match changed {
                    Ok(()) => self.schedule.pace(*self.pace.borrow_and_update()),
                    Err(_) => return false,
                },
                () = sleep_until(due) => return true,
            }
        }
    }

    /// Whether the coming call answers an alarm.
    #[must_use]
    pub fn is_alarmed(&self) -> bool {
        self.schedule.is_alarmed()
    }

    /// The pace at this moment.
    #[must_use]
    pub fn pace_at(&self, now: Instant) -> Pace {
        self.schedule.pace_at(now)
    }

    /// The call that began at `begun` has ended now.
    pub fn done(&mut self, begun: Instant, call: Call) {
        self.schedule.done(begun, Instant::now(), call);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Plays a call that takes no time; gives the time until it could begin.
    async fn tick(ticks: &mut Ticks) -> Duration {
        let before = Instant::now();
        assert!(ticks.next().await);
        ticks.done(Instant::now(), Call::Usual);
        before.elapsed()
    }

    /// Exercises pace and alarm, before and while the task waits, so that both are heeded at once.
    #[tokio::test(start_paused = true)]
    async fn hurries_when_told() {
        let (remote, mut ticks) = ticks(Intervals::default());
        assert_eq!(tick(&mut ticks).await, Duration::ZERO);
        assert_eq!(tick(&mut ticks).await.as_secs(), 5);
        remote.alarm();
        remote.alarm();
        assert_eq!(tick(&mut ticks).await, Duration::ZERO);
        assert_eq!(tick(&mut ticks).await.as_millis(), 200);
        tokio::time::sleep(Duration::from_secs(3)).await;
        tick(&mut ticks).await;
        let hurry = async {
            tokio::time::sleep(Duration::from_millis(1_300)).await;
            remote.pace(Pace::Fast);
        };
        let (waited, ()) = tokio::join!(tick(&mut ticks), hurry);
        assert_eq!(waited.as_millis(), 1_300);
        assert_eq!(tick(&mut ticks).await.as_millis(), 200);
    }

    /// Exercises a remote that is dropped, so that the task ends.
    #[tokio::test(start_paused = true)]
    async fn ends_with_the_remote() {
        let (remote, mut ticks) = ticks(Intervals::default());
        tick(&mut ticks).await;
        drop(remote);
        assert!(!ticks.next().await);
    }
}
