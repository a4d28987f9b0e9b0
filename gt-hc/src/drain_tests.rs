//! Drains against an Envoy made of a script, in paused time: what happens, and at which instant.

use std::{
    io,
    sync::{Arc, Mutex},
};

use tokio::time::{advance, sleep};

use super::*;
use crate::{exit::Exit, fetch::FetchError, log::Log};

/// An Envoy that answers what the script has for the time since its making.
#[derive(Clone)]
struct Script {
    start: Instant,
    steps: &'static [(u64, Told)],
    asked: Arc<Mutex<Vec<u64>>>,
}

#[derive(Clone, Copy)]
enum Told {
    Active(u64, u64),
    Unreadable,
    /// No answer, until the caller gives up.
    Hangs,
}

impl Count for Script {
    async fn count(&self) -> Result<Active, ReadError> {
        let millis = u64::try_from(self.start.elapsed().as_millis()).unwrap();
        self.asked.lock().unwrap().push(millis);
        let (_, told) = self.steps.iter().rev().find(|(from, _)| *from <= millis).unwrap();
        let unreachable = |cause| ReadError::Unreachable { address: ([127, 0, 0, 1], 15000).into(), cause };
        match told {
            Told::Active(downstream, upstream) => Ok(Active { downstream: *downstream, upstream: *upstream }),
            Told::Unreadable => {
                Err(unreachable(FetchError::Connect(io::ErrorKind::ConnectionRefused.into())))
            }
            Told::Hangs => {
                sleep(Duration::from_secs(5)).await;
                Err(unreachable(FetchError::TooSlow(Duration::from_secs(5))))
            }
        }
    }
}

struct Scene {
    sidecar: Sidecar,
    start: Instant,
    asked: Arc<Mutex<Vec<u64>>>,
}

/// The runbook's times: 120, 10 and 2 seconds.
fn scene(steps: &'static [(u64, Told)]) -> Scene {
    let (log, _writer) = Log::start(io::sink());
    let sidecar = Sidecar::new(log);
    let start = Instant::now();
    let asked = Arc::default();
    let times = Times {
        drain_timeout: Duration::from_secs(120),
        lb_buffer: Duration::from_secs(10),
        poll_interval: Duration::from_secs(2),
    };
    tokio::spawn(drive(sidecar.clone(), Script { start, steps, asked: Arc::clone(&asked) }, times));
    Scene { sidecar, start, asked }
}

impl Scene {
    /// Waits for the next state; gives it with the milliseconds since the begin.
    async fn next(&self) -> (State, u128) {
        let revision = self.sidecar.view().machine.revision();
        let mut watch = self.sidecar.watch();
        let view = watch.wait_for(|view| view.machine.revision() > revision).await.unwrap().clone();
        (view.state(), (view.entered - self.start).as_millis())
    }
}

/// Exercises requests that end in two steps so that the LB is told only when both counts are zero.
#[tokio::test(start_paused = true)]
async fn closes_at_zero_only() {
    let scene = scene(&[(0, Told::Active(2, 2)), (5_000, Told::Active(1, 0)), (9_000, Told::Active(0, 0))]);
    scene.sidecar.apply(Cause::DrainRequested).unwrap();
    assert_eq!(scene.next().await, (State::Closing, 10_000));
    assert_eq!(scene.sidecar.view().reading.total(), Some(0));
    assert_eq!(scene.next().await, (State::Closed, 20_000));
    assert_eq!(scene.sidecar.view().exit(), Exit::Done);
    assert_eq!(scene.asked.lock().unwrap()[..6], [0, 2_000, 4_000, 6_000, 8_000, 10_000]);
}

/// Exercises a gateway without work so that its drain costs the LB's time and no more.
#[tokio::test(start_paused = true)]
async fn an_idle_gateway_closes_at_once() {
    let scene = scene(&[(0, Told::Active(0, 0))]);
    sleep(Duration::from_secs(60)).await;
    assert!(scene.asked.lock().unwrap().is_empty(), "Envoy is asked in OPEN");
    scene.sidecar.apply(Cause::DrainRequested).unwrap();
    assert_eq!(scene.next().await, (State::Closing, 60_000));
    assert_eq!(scene.next().await, (State::Closed, 70_000));
}

/// Exercises requests that never end so that the timeout comes when it is due and names what is known.
#[tokio::test(start_paused = true)]
async fn times_out_with_requests_in_flight() {
    let scene = scene(&[(0, Told::Active(1, 1))]);
    scene.sidecar.apply(Cause::DrainRequested).unwrap();
    assert_eq!(scene.next().await, (State::Fault, 120_000));
    let view = scene.sidecar.view();
    assert_eq!((view.exit(), view.settled, view.machine.reason()), (Exit::Broken, None, "drain_timeout"));
    scene.sidecar.over(Duration::ZERO).await;
    assert_eq!((Instant::now() - scene.start).as_secs(), 130, "the LB has its time after a fault, too");
    assert_eq!(scene.sidecar.view().state(), State::Fault);
}

/// Exercises Envoys that cannot be read, in two ways, so that neither counts as zero.
#[tokio::test(start_paused = true)]
async fn unreadable_is_not_zero() {
    const WAYS: [&[(u64, Told)]; 3] = [
        &[(0, Told::Active(1, 1)), (4_000, Told::Unreadable)],
        &[(0, Told::Active(1, 1)), (4_000, Told::Hangs)],
        &[(0, Told::Hangs)],
    ];
    for steps in WAYS {
        let scene = scene(steps);
        scene.sidecar.apply(Cause::DrainRequested).unwrap();
        assert_eq!(scene.next().await, (State::Fault, 120_000));
        let view = scene.sidecar.view();
        assert_eq!(view.reading.total(), None);
        assert_eq!((view.exit(), view.machine.reason()), (Exit::Unknown, "drain_timeout_active_unknown"));
    }
}

/// Exercises an Envoy that cannot be read for a while so that the drain goes on when it can be again.
#[tokio::test(start_paused = true)]
async fn a_short_blindness_is_survived() {
    let scene = scene(&[(0, Told::Active(1, 1)), (2_000, Told::Unreadable), (8_000, Told::Active(0, 0))]);
    scene.sidecar.apply(Cause::DrainRequested).unwrap();
    assert_eq!(scene.next().await, (State::Closing, 8_000));
}

/// Exercises a hung Envoy so that it is asked again only after a pause.
#[tokio::test(start_paused = true)]
async fn a_slow_envoy_is_asked_less() {
    let scene = scene(&[(0, Told::Hangs)]);
    scene.sidecar.apply(Cause::DrainRequested).unwrap();
    sleep(Duration::from_secs(20)).await;
    assert_eq!(*scene.asked.lock().unwrap(), [0, 7_000, 14_000]);
}

/// Exercises reopening in DRAINING and a second drain so that nothing of the first one lives on: neither
/// its timeout nor its count.
#[tokio::test(start_paused = true)]
async fn a_second_drain_has_its_own_time() {
    let scene = scene(&[(0, Told::Active(1, 0))]);
    scene.sidecar.apply(Cause::DrainRequested).unwrap();
    sleep(Duration::from_secs(100)).await;
    scene.sidecar.apply(Cause::ReopenRequested).unwrap();
    assert_eq!(scene.sidecar.view().reading, crate::sidecar::Reading::NotAsked);
    assert_eq!(Sidecar::warning(&scene.sidecar.view()), None, "the LB never saw a 503");
    sleep(Duration::from_secs(50)).await;
    assert_eq!(scene.sidecar.view().state(), State::Open);
    scene.sidecar.apply(Cause::DrainRequested).unwrap();
    assert_eq!(scene.next().await, (State::Fault, 270_000));
}

/// Exercises reopening in CLOSING so that the buffer's end does not close a pod that is open again.
#[tokio::test(start_paused = true)]
async fn reopening_stops_the_closing() {
    let scene = scene(&[(0, Told::Active(0, 0))]);
    scene.sidecar.apply(Cause::DrainRequested).unwrap();
    assert_eq!(scene.next().await.0, State::Closing);
    advance(Duration::from_secs(9)).await;
    scene.sidecar.apply(Cause::ReopenRequested).unwrap();
    sleep(Duration::from_secs(60)).await;
    let view = scene.sidecar.view();
    assert_eq!(view.state(), State::Open);
    let warning = Sidecar::warning(&view).unwrap();
    assert!(warning.starts_with("199 gt-hc \"reopened from CLOSING at 2"), "{warning}");
}

/// Exercises `/close-lb` by hand while requests are in flight: the caller's will, and the drain goes on
/// from there.
#[tokio::test(start_paused = true)]
async fn a_step_by_hand_is_carried_on() {
    let scene = scene(&[(0, Told::Active(3, 3))]);
    scene.sidecar.apply(Cause::DrainRequested).unwrap();
    sleep(Duration::from_secs(1)).await;
    scene.sidecar.apply(Cause::CloseLbRequested).unwrap();
    assert_eq!(scene.next().await, (State::Closed, 11_000));
    assert_eq!(scene.sidecar.view().reading.total(), Some(6), "downstream and upstream");
}

/// Exercises SIGTERM in OPEN so that a pod without preStop drains all the same, and cannot be reopened.
#[tokio::test(start_paused = true)]
async fn sigterm_drains() {
    let scene = scene(&[(0, Told::Active(1, 1)), (6_000, Told::Active(0, 0))]);
    scene.sidecar.stop();
    assert_eq!(scene.sidecar.view().machine.reason(), "sigterm");
    assert!(scene.sidecar.apply(Cause::ReopenRequested).is_err());
    scene.sidecar.over(Duration::ZERO).await;
    assert_eq!((Instant::now() - scene.start).as_secs(), 16);
    assert_eq!(scene.sidecar.view().state(), State::Closed);
}
