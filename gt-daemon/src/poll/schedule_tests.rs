use proptest::prelude::*;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn schedule() -> (Schedule, Instant) {
    (Schedule::new(Intervals::default()), Instant::now())
}

/// Exercises the paces, so that an idle pod is asked seldom and a draining one often.
#[test]
fn paces() {
    let (mut schedule, start) = schedule();
    assert_eq!(schedule.due(start), start);
    schedule.done(start, start + MS, Call::Usual);
    assert_eq!(schedule.due(start + MS) - start, Duration::from_secs(5));
    schedule.pace(Pace::Fast);
    assert_eq!(schedule.due(start + MS) - start, 200 * MS);
}

/// Exercises a source whose answers cost much, so that both paces are slower; one long wait changes nothing.
#[test]
fn costly_answers() {
    let (mut schedule, start) = schedule();
    for took in [10, 10, 500, 12] {
        schedule.done(start, start + took * MS, Call::Usual);
    }
    assert_eq!(schedule.due(start) - start, Duration::from_secs(12));
    schedule.pace(Pace::Fast);
    assert_eq!(schedule.due(start) - start, 1_000 * MS);
    schedule.done(start, start + 500 * MS, Call::Usual);
    assert_eq!(schedule.due(start) - start, Duration::from_secs(10));
    for _ in 0..CALLS {
        schedule.done(start, start + 20 * MS, Call::Usual);
    }
    assert_eq!(schedule.due(start) - start, 2_000 * MS);
    schedule.done(start, start + 50 * MS, Call::Special);
    assert_eq!(schedule.due(start) - start, 2_000 * MS);
}

/// Exercises an alarm, so that it is answered at once, once, and watched for a while after.
#[test]
fn alarms() {
    let (mut schedule, start) = schedule();
    schedule.done(start, start + MS, Call::Usual);
    let alarm = start + Duration::from_secs(1);
    schedule.alarm(alarm);
    assert_eq!(schedule.due(alarm), alarm);
    schedule.done(alarm + MS, alarm + 2 * MS, Call::Usual);
    assert!(!schedule.is_alarmed());
    assert_eq!(schedule.due(alarm + 2 * MS), alarm + 201 * MS);
    let later = alarm + Duration::from_millis(2_001);
    assert_eq!(schedule.due(later), alarm + MS + Duration::from_secs(5));
}

/// Exercises an alarm during a call, so that an answer which may be older than the event does not count.
#[test]
fn an_alarm_during_a_call_asks_again() {
    let (mut schedule, start) = schedule();
    schedule.alarm(start + MS);
    schedule.done(start, start + 2 * MS, Call::Usual);
    assert!(schedule.is_alarmed());
    assert_eq!(schedule.due(start + 2 * MS), start + 40 * MS);
}

/// Exercises a source that fails, so that one failure costs little time and a hundred cost little work.
#[test]
fn failures() {
    let (mut schedule, start) = schedule();
    schedule.pace(Pace::Fast);
    let limit = Duration::from_secs(2);
    let mut waits = Vec::new();
    for _ in 0..10 {
        schedule.done(start, start + limit, Call::Failed);
        waits.push((schedule.due(start + limit) - start).as_millis());
    }
    assert_eq!(waits[..4], [400, 800, 1_600, 3_200]);
    assert_eq!(waits[9], 40_000);
    schedule.done(start, start, Call::Failed);
    assert_eq!(schedule.due(start) - start, Duration::from_secs(5));
    schedule.done(start, start + MS, Call::Usual);
    assert_eq!(schedule.due(start) - start, 200 * MS);
}

/// Exercises a source that is not there yet, so that it is found soon at either pace, at an alarm sooner, and one that
/// never comes is asked no more often than one that is there.
#[test]
fn refusals() {
    for pace in [Pace::Slow, Pace::Fast] {
        let (mut schedule, start) = schedule();
        schedule.pace(pace);
        let waits = std::array::from_fn(|_| {
            schedule.done(start, start + MS, Call::Refused);
            (schedule.due(start + MS) - start).as_millis()
        });
        assert_eq!(waits, [400, 800, 1_600, 3_200, 5_000, 5_000], "{pace:?}");
        for (alarm, due) in [(50, 200), (900, 900), (9_000, 5_000)] {
            schedule.alarm(start + alarm * MS);
            assert_eq!(schedule.due(start + alarm * MS), start + due * MS, "{pace:?}, alarm at {alarm} ms");
        }
        schedule.done(start, start + MS, Call::Failed);
        assert_eq!(schedule.due(start + MS) - start, Duration::from_secs(5), "a failure is none of these");
    }
}

proptest! {
    /// Exercises any course of calls and alarms, so that a source that answers is never busy for more than a
    /// twentieth of the time, and no pace is exceeded without an alarm.
    #[test]
    fn never_too_busy(steps in prop::collection::vec((0_u64..400, any::<bool>(), any::<bool>()), 1..60)) {
        let (mut schedule, start) = schedule();
        let (mut now, mut last) = (start, None::<(Instant, Duration)>);
        for (took, fast, alarm) in steps {
            schedule.pace(if fast { Pace::Fast } else { Pace::Slow });
            if alarm {
                schedule.alarm(now);
            }
            let due = schedule.due(now).max(now);
            if let Some((begun, duration)) = last {
                prop_assert!(due >= begun + duration * BUSY);
                prop_assert!(alarm || schedule.is_alarmed() || due >= begun + 200 * MS);
            }
            let took = Duration::from_millis(took);
            schedule.done(due, due + took, Call::Usual);
            last = Some((due, took));
            now = due + took;
        }
    }
}
