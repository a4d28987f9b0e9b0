//! What the load balancer did, where that is known when an end is judged.

use super::*;
use crate::lb::{follow::What as LbWhat, word::Serving};

fn said(ms: u64, status: &str) -> LbSaid {
    let what = LbWhat::Status { status: Some(status.to_owned()), serving: Serving::of(status) };
    LbSaid { ts: at(ms).utc_us, server: "igw/1".to_owned(), what }
}

/// The cause of a cut by the peer at 1000 ms, with hc at OPEN.
fn cause_with(said: &[LbSaid]) -> Cause {
    let mut pod = pod(true, false);
    pod.lb(said);
    pod.hc(&since(HcState::Open, 0, 1100));
    pod.torn(cut(1, 1000));
    let judged = pod.advance(at(1200), u64::MAX);
    judged[0].cause
}

/// Exercises words from before and just after a cut while hc is OPEN, so that the LB is to blame once it was DOWN, and not by what
/// is old or forgotten.
#[test]
fn causes() {
    assert_eq!(cause_with(&[]), Cause::ClientAbort);
    assert_eq!(cause_with(&[said(500, "UP 1/2")]), Cause::ClientAbort);
    assert_eq!(cause_with(&[said(500, "MAINT")]), Cause::LbFlush);
    let turned = LbSaid { what: LbWhat::Down { last_up: Some(at(900).utc_us) }, ..said(1050, "DOWN") };
    assert_eq!(cause_with(&[said(500, "UP"), turned]), Cause::LbFlush);
    assert_eq!(cause_with(&[said(500, "no check")]), Cause::ClientAbort);

    let mut old = pod(true, false);
    old.lb(&[said(0, "DOWN")]);
    assert_eq!(old.lb_at(at(599_000).monotonic_ns, at(700_000)), LbHeld::Down);
    assert_eq!(old.lb_at(at(601_000).monotonic_ns, at(700_000)), LbHeld::Untold);
    old.lb_is_over();
    assert_eq!(old.lb_at(at(1000).monotonic_ns, at(700_000)), LbHeld::Untold);
}
