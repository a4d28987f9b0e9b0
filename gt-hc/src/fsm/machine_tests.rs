use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;

use super::*;

fn at(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(second)
}

/// A machine after these causes, each of which must be accepted.
fn after(causes: &[Cause]) -> Machine {
    let mut machine = Machine::new(at(0));
    for (second, cause) in (1..).zip(causes) {
        machine.apply(*cause, at(second)).unwrap();
    }
    machine
}

/// A way to each state.
fn in_state(state: State) -> Machine {
    let machine = match state {
        State::Open => after(&[]),
        State::Draining => after(&[Cause::DrainRequested]),
        State::Closing => after(&[Cause::DrainRequested, Cause::ActiveZero]),
        State::Closed => after(&[Cause::DrainRequested, Cause::ActiveZero, Cause::LbBufferOver]),
        State::Fault => after(&[Cause::DrainRequested, Cause::DrainTimeout]),
    };
    assert_eq!(machine.state(), state);
    machine
}

fn any_cause() -> impl Strategy<Value = Cause> {
    (0..Cause::ALL.len()).prop_map(|index| Cause::ALL[index])
}

proptest! {
    /// Exercises any sequence of calls so that no undeclared transition is ever reached, and so that a
    /// refused call changes nothing, says why, and names what would be accepted.
    #[test]
    fn only_declared_transitions(causes in prop::collection::vec(any_cause(), 0..40), stop_at in 0..60_usize) {
        let mut machine = Machine::new(at(0));
        for (step, cause) in causes.into_iter().enumerate() {
            if step == stop_at {
                machine.stop();
            }
            let before = machine.clone();
            let now = at(step as u64 + 1);
            match machine.apply(cause, now) {
                Ok(Outcome::Changed { from }) => {
                    prop_assert_eq!(from, before.state());
                    prop_assert!(from.next().contains(&machine.state()), "{from} -> {}", machine.state());
                    prop_assert_eq!(machine.state(), cause.target());
                    prop_assert_eq!(machine.revision(), before.revision() + 1);
                    prop_assert_eq!((machine.since(), machine.reason()), (now, cause.word()));
                    prop_assert!(!(machine.stopping() && machine.state() == State::Open));
                }
                Ok(Outcome::Already) => {
                    prop_assert_eq!(cause.target(), before.state());
                    prop_assert_eq!(&machine, &before);
                }
                Err(refusal) => {
                    prop_assert_eq!(&machine, &before);
                    prop_assert!(before.stopping() || !before.state().next().contains(&cause.target()));
                    prop_assert!(refusal.why.len() > 10 && refusal.why != "no such transition is declared");
                    for cause in &refusal.allowed {
                        let accepted = machine.clone().apply(*cause, now);
                        prop_assert!(matches!(accepted, Ok(Outcome::Changed { from: _ })), "{cause} is refused");
                    }
                    let text = refusal.to_string();
                    prop_assert!(text.contains(before.state().name()), "{text}");
                }
            }
        }
    }

    /// Exercises any sequence so that OPEN warns exactly when the LB was told 503 just before it.
    #[test]
    fn reopened_after_a_503_only(causes in prop::collection::vec(any_cause(), 0..40)) {
        let mut machine = Machine::new(at(0));
        for cause in causes {
            let before = machine.state();
            let changed = matches!(machine.apply(cause, at(9)), Ok(Outcome::Changed { .. }));
            if changed {
                let expected = machine.state() == State::Open && !before.open_to_lb();
                prop_assert_eq!(machine.reopened().is_some(), expected);
            }
        }
    }
}

/// Exercises every cause in every state so that each refusal reads as a person needs it.
#[test]
fn refusals_in_words() {
    let refused = |state, cause| in_state(state).apply(cause, at(99)).unwrap_err().to_string();
    assert_eq!(
        refused(State::Open, Cause::CloseLbRequested),
        "POST /close-lb is refused in OPEN: a 503 before the requests in flight have ended cuts them: drain \
         first; allowed now: POST /drain"
    );
    assert_eq!(
        refused(State::Closed, Cause::ReopenRequested),
        "POST /reopen is refused in CLOSED: CLOSED is final: the pod is about to end; delete it to get a new \
         one; allowed now: nothing"
    );
    assert_eq!(
        refused(State::Draining, Cause::CloseRequested),
        "POST /close is refused in DRAINING: readiness goes down only after the LB was told 503 and has had \
         time to notice; allowed now: POST /close-lb, POST /reopen"
    );
}

/// Exercises SIGTERM so that nobody reopens a pod that is about to end.
#[test]
fn no_reopening_while_stopping() {
    let mut machine = in_state(State::Closing);
    machine.stop();
    let refusal = machine.apply(Cause::ReopenRequested, at(99)).unwrap_err();
    assert_eq!(refusal.allowed, [Cause::CloseRequested]);
    assert!(refusal.to_string().contains("SIGTERM"), "{refusal}");
}
