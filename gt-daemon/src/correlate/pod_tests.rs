//! Teardowns of one pod, with what its sources say before and after.

#[path = "pod_tests/lb.rs"]
mod lb;

use gt_common::connection::{Evidence, HcState, How, Protocol};

use super::*;
use crate::{
    correlate::proxy::tests::{look, torn},
    hc::observation::{Source, What},
};

const MS: u64 = 1_000_000;

fn at(ms: u64) -> Moment {
    Moment { monotonic_ns: ms * MS, utc_us: i64::try_from(ms * 1000).unwrap() }
}

fn pod(has_hc: bool, has_envoy: bool) -> Pod {
    let name = Name { namespace: "ns".to_owned(), pod: "pod".to_owned(), container: String::new() };
    Pod { has_hc, has_envoy, ..Pod::new("uid".into(), name, 250) }
}

fn since(state: HcState, since_ms: u64, seen_ms: u64) -> Observation {
    Observation {
        source: Source::State,
        what: What::Since(state),
        at_us: at(since_ms).utc_us,
        seen: at(seen_ms),
        took_ns: 0,
        reason: None,
        active: None,
    }
}

fn cut(socket: u64, at_ms: u64) -> Torn {
    torn(socket, at_ms, How::FinReceived, Phase::Awaiting, Evidence::Socket)
}

fn killed(socket: u64, at_ms: u64, phase: Phase, evidence: Evidence) -> Torn {
    let mut torn = torn(socket, at_ms, How::FinSent, phase, evidence);
    torn.known.exiting = true;
    torn
}

/// A pod whose proxy is known up to the 4000th millisecond and holds `active` requests.
fn with_proxy(has_hc: bool, active: u64) -> Pod {
    let mut pod = pod(has_hc, true);
    for ms in [0, 2000, 4000] {
        answer(&mut pod, ms, 10, 0, active);
    }
    assert!(pod.advance(at(4001), u64::MAX).is_empty());
    pod
}

fn answer(pod: &mut Pod, ms: u64, ended: u64, remote: u64, active: u64) {
    let mut sample = look(ms, ended, remote, remote);
    sample.gauges.values.downstream_rq_active = Some(active);
    sample.gauges.values.downstream_cx_active = Some(3);
    pod.answered(&sample, at(ms + 1));
    pod.connected(&sample, Some((3, 0)));
}

fn proofs(judged: &[Judged]) -> Vec<(u64, Option<Proof>)> {
    let mut all: Vec<_> =
        judged.iter().map(|one| (one.torn.map_or(0, |torn| torn.id.socket), one.proof)).collect();
    all.sort_by_key(|(socket, _)| *socket);
    all
}

/// Exercises a pod of which only the kernel knows, so that its word stands, at once.
#[test]
fn the_kernel_alone() {
    let mut pod = pod(false, false);
    assert!(!pod.torn(cut(1, 1000)));
    let judged = pod.advance(at(1000), 0);
    assert_eq!(proofs(&judged), [(1, Some(Proof::Socket))]);
    assert_eq!((judged[0].cause, judged[0].hc), (Cause::Unknown, None));
    // An RST that comes later is that cut's, once.
    let id = cut(1, 1000).id;
    let labels = ResetLabels { direction: Direction::Received, hc: None, proof: Proof::Socket };
    assert_eq!(pod.reset(id, Direction::Received, true), Reset::OfCut(labels));
    assert_eq!(pod.reset(id, Direction::Sent, true), Reset::Nothing);
    assert_eq!(pod.reset(Id { socket: 2, ..id }, Direction::Sent, true), Reset::Unknown);
}

/// Exercises an abort, so that it waits for its RST, and is a timeout without one.
#[test]
fn aborts() {
    let pending = |socket| torn(socket, 1000, How::Pending, Phase::Awaiting, Evidence::Socket);
    let mut pod = pod(false, false);
    pod.torn(pending(1));
    pod.torn(pending(2));
    assert!(pod.advance(at(1001), 0).is_empty());
    assert_eq!(pod.reset(pending(1).id, Direction::Sent, true), Reset::First);
    let judged = pod.advance(at(1002), 0);
    assert_eq!((judged.len(), judged[0].ending, judged[0].rst), (1, Ending::RstSent, Some(Direction::Sent)));
    let judged = pod.advance(at(1600), 0);
    assert_eq!((judged.len(), judged[0].ending, judged[0].rst), (1, Ending::Timeout, None));
}

/// Exercises hc's answers before and after a cut, so that it is judged by what held at its instant.
#[test]
fn hc_at_the_instant() {
    let mut pod = pod(true, false);
    pod.hc(&since(HcState::Open, 0, 900));
    assert!(pod.torn(cut(1, 1000)), "hc is asked");
    assert!(pod.advance(at(1001), 0).is_empty() && pod.wants(1001 * MS));
    // It had turned just before.
    pod.hc(&since(HcState::Closing, 999, 1010));
    let judged = pod.advance(at(1011), 0);
    assert_eq!((judged[0].cause, judged[0].hc), (Cause::LbFlush, Some(HcState::Closing)));
    pod.torn(cut(2, 998));
    let judged = pod.advance(at(1012), 0);
    // OPEN, or DRAINING by then: 200 in any case.
    assert_eq!((judged[0].cause, judged[0].hc), (Cause::ClientAbort, Some(HcState::Unknown)));
}

/// Exercises an answer that hc gave before a cut and that came after it, so that it does not tell of the cut.
#[test]
fn a_slow_answer() {
    let mut pod = pod(true, false);
    pod.torn(cut(1, 1000));
    pod.hc(&Observation { took_ns: 500 * MS, ..since(HcState::Open, 0, 1400) });
    assert!(pod.advance(at(1401), 0).is_empty() && pod.wants(1401 * MS));
    pod.hc(&since(HcState::Closing, 950, 1410));
    let judged = pod.advance(at(1411), 0);
    assert_eq!(judged[0].cause, Cause::LbFlush);
}

/// Exercises an hc that falls silent, so that what it told long ago is not taken for true, and nobody for a client that gave
/// up while the LB was told 200: the LB may have found hc silent too.
#[test]
fn a_silent_hc() {
    let mut pod = pod(true, false);
    pod.hc(&since(HcState::Open, 0, 900));
    pod.torn(cut(1, 1000));
    pod.torn(cut(2, 5000));
    assert!(pod.advance(at(2900), 0).is_empty());
    let judged = pod.advance(at(3000), 0);
    assert_eq!((judged.len(), judged[0].hc), (1, Some(HcState::Open)), "told a tenth of a second before");
    assert_eq!(judged[0].cause, Cause::Unknown);
    let judged = pod.advance(at(7000), 0);
    assert_eq!((judged[0].cause, judged[0].hc), (Cause::Unknown, Some(HcState::Unknown)));
}

/// Exercises the proxy's exact words, so that they go before the socket's, but for bytes it has not read.
#[test]
fn the_proxys_word() {
    let mut pod = with_proxy(false, 1);
    let possible = torn(2, 5000, How::FinReceived, Phase::Streaming, Evidence::Possible);
    let unread = torn(3, 5000, How::RstSent, Phase::Unread, Evidence::Socket);
    for torn in [cut(1, 5000), possible, unread] {
        pod.torn(torn);
    }
    answer(&mut pod, 5010, 13, 1, 0);
    assert!(pod.advance(at(5012), u64::MAX).is_empty() && pod.wants(5012 * MS));
    answer(&mut pod, 5020, 13, 1, 0);
    let judged = pod.advance(at(5022), u64::MAX);
    assert_eq!(proofs(&judged), [(1, Some(Proof::L7)), (2, None), (3, Some(Proof::Socket))]);
}

/// Exercises a request that the proxy has not read beside one that it had in flight, in either order, so that its one count
/// goes to the latter, and both are cuts.
#[test]
fn unread_and_in_flight() {
    for (unread_at, cut_at) in [(5000, 5001), (5001, 5000)] {
        let mut pod = with_proxy(false, 1);
        pod.torn(torn(1, unread_at, How::FinReceived, Phase::Unread, Evidence::Socket));
        pod.torn(cut(2, cut_at));
        for ms in [5010, 5020] {
            answer(&mut pod, ms, 12, 1, 0);
        }
        let judged = pod.advance(at(5022), u64::MAX);
        assert_eq!(proofs(&judged), [(1, Some(Proof::Socket)), (2, Some(Proof::L7))]);
    }
}

/// Exercises a proxy that answers and whose worker is held up for long, so that a cut that the socket proves by then is not
/// counted again when the proxy does, and one that nothing has proved is told as what it is.
#[test]
fn a_slow_worker() {
    let mut pod = with_proxy(false, 2);
    pod.torn(cut(1, 5000));
    pod.torn(torn(2, 5001, How::FinReceived, Phase::Unknown, Evidence::None));
    let mut found = Vec::new();
    for ms in (5010..7700).step_by(500) {
        answer(&mut pod, ms, 10, 0, 2);
        found.extend(proofs(&pod.advance(at(ms + 2), u64::MAX)));
    }
    assert_eq!(found, [(2, None), (1, Some(Proof::Socket))]);
    for ms in [9000, 9010] {
        answer(&mut pod, ms, 12, 2, 0);
    }
    assert_eq!(proofs(&pod.advance(at(9012), u64::MAX)), [(2, Some(Proof::L7))]);
}

/// Exercises a cut that only the proxy could see, so that it is counted although it was taken for an idle end, and its
/// RST with it.
#[test]
fn a_late_word() {
    let mut pod = with_proxy(false, 1);
    let http2 = torn(1, 5000, How::FinReceived, Phase::Unknown, Evidence::None);
    assert!(pod.torn(http2), "only the proxy knows");
    assert_eq!(proofs(&pod.advance(at(5001), u64::MAX)), [(1, None)]);
    assert_eq!(pod.reset(http2.id, Direction::Received, false), Reset::OfPast);
    answer(&mut pod, 5010, 11, 1, 0);
    answer(&mut pod, 5020, 11, 1, 0);
    let judged = pod.advance(at(5022), u64::MAX);
    assert_eq!(proofs(&judged), [(1, Some(Proof::L7))]);
    assert_eq!(judged[0].rst, Some(Direction::Received));
}

/// Exercises a proxy that does not answer, so that the socket's word stands.
#[test]
fn a_proxy_that_fails() {
    let mut pod = with_proxy(false, 1);
    pod.torn(cut(1, 5000));
    assert!(pod.advance(at(5001), u64::MAX).is_empty());
    pod.failed(at(5100));
    assert_eq!(proofs(&pod.advance(at(5101), u64::MAX)), [(1, Some(Proof::Socket))]);
    // One that says nothing at all is not waited for without end.
    let mut pod = with_proxy(false, 1);
    pod.torn(cut(1, 5000));
    assert!(pod.advance(at(8900), u64::MAX).is_empty());
    assert_eq!(proofs(&pod.advance(at(9000), u64::MAX)), [(1, Some(Proof::Socket))]);
}

/// Exercises a proxy that is killed with four requests in flight: two sockets prove theirs, and of the others the likeliest
/// may have held the rest.
#[test]
fn a_killed_proxy() {
    let mut pod = with_proxy(false, 4);
    let torn = [
        killed(1, 5000, Phase::Awaiting, Evidence::Socket),
        killed(2, 5000, Phase::Awaiting, Evidence::Socket),
        killed(3, 5000, Phase::Streaming, Evidence::None),
        killed(4, 5001, Phase::Unknown, Evidence::None),
        killed(5, 5001, Phase::Unknown, Evidence::None),
        killed(6, 5001, Phase::Idle, Evidence::None),
    ];
    for torn in torn {
        pod.torn(torn);
    }
    pod.failed(at(5010));
    let judged = pod.advance(at(5011), u64::MAX);
    assert_eq!(
        proofs(&judged),
        [
            (1, Some(Proof::Socket)),
            (2, Some(Proof::Socket)),
            (3, Some(Proof::Possible)),
            (4, Some(Proof::Possible)),
            (5, None),
            (6, None)
        ]
    );
    assert!(judged.iter().all(|one| one.proof.is_none() || one.cause == Cause::Killed));
    assert_eq!(judged[0].last_told, Some((4, 1000 * MS)));
}

/// Exercises streams that are reset, so that they are blamed on what hc told all through the window.
#[test]
fn reset_streams() {
    let mut pod = with_proxy(true, 4);
    pod.hc(&since(HcState::Closing, 4500, 4600));
    assert!(pod.wants(4601 * MS), "what was counted before hc turned is told apart");
    answer(&mut pod, 4650, 10, 0, 4);
    let mut after = look(5000, 10, 0, 3);
    pod.answered(&after, at(5001));
    after.counters = look(5010, 10, 0, 3).counters;
    pod.answered(&after, at(5011));
    pod.hc(&since(HcState::Closing, 4500, 5012));
    let judged = pod.advance(at(5012), u64::MAX);
    assert_eq!((judged.len(), judged[0].ending, judged[0].count), (1, Ending::StreamReset, 3));
    assert_eq!((judged[0].cause, judged[0].hc), (Cause::LbFlush, Some(HcState::Closing)));
}

/// Exercises answers that the proxy broke off because the service behind it did, while the LB was told 200, so that neither
/// the client nor the LB is blamed; and one stream among them that the client gave up.
#[test]
fn broken_off_answers() {
    let mut pod = with_proxy(true, 4);
    pod.hc(&since(HcState::Draining, 3000, 3100));
    for ms in [5000, 5010] {
        let mut sample = look(ms, 10, 0, 3);
        if let Some(counters) = &mut sample.counters {
            counters.values.downstream_rq_tx_reset = Some(2);
        }
        pod.answered(&sample, at(ms + 1));
    }
    pod.hc(&since(HcState::Draining, 3000, 5012));
    let judged = pod.advance(at(5012), u64::MAX);
    let found: Vec<_> = judged.iter().map(|one| (one.ending, one.cause, one.count)).collect();
    assert_eq!(found, [(Ending::StreamReset, Cause::ClientAbort, 1), (Ending::StreamReset, Cause::Proxy, 2)]);
}

/// Exercises a cut that the proxy counts and whose event was lost, so that it is counted once.
#[test]
fn lost_and_unseen_are_one() {
    let mut pod = with_proxy(false, 1);
    for ms in [5000, 8000, 8010] {
        answer(&mut pod, ms, 11, 1, 0);
    }
    let judged = pod.advance(at(8012), u64::MAX);
    assert_eq!((judged.len(), judged[0].ending, judged[0].count), (1, Ending::Unseen, 1));
    assert_eq!((pod.lost(1), pod.lost(1)), (0, 1));
    // The other way round.
    for ms in [9000, 12_000, 12_010] {
        answer(&mut pod, ms, 12, 2, 0);
    }
    assert!(pod.advance(at(12_012), u64::MAX).is_empty());
}

/// Exercises ends that the socket says nothing of, so that each is certain only by the proxy's word: its exact `no`, or an
/// idle proxy's last answer when the connection has brought nothing since.
#[test]
fn certainty() {
    let ends = |socket, ms| torn(socket, ms, How::FinReceived, Phase::Unknown, Evidence::None);
    let mut pod = with_proxy(false, 1);
    pod.torn(ends(1, 5000));
    pod.torn(torn(2, 5000, How::FinReceived, Phase::Idle, Evidence::None));
    let judged = pod.advance(at(5001), u64::MAX);
    assert_eq!(
        judged.iter().map(|one| (one.sure, one.again)).collect::<Vec<_>>(),
        [(false, false), (true, false)]
    );
    answer(&mut pod, 5010, 12, 0, 0);
    answer(&mut pod, 5020, 12, 0, 0);
    let judged = pod.advance(at(5022), u64::MAX);
    assert_eq!((proofs(&judged), judged[0].sure, judged[0].again), (vec![(1, None)], true, true));
    // The process ends two seconds later.
    let dies = |socket, since_read| {
        let mut torn = killed(socket, 7020, Phase::Unknown, Evidence::None);
        torn.known.protocol = Protocol::Http2;
        torn.known.received = 100;
        torn.known.since_read = since_read;
        torn
    };
    for torn in [dies(3, Some(600)), dies(4, Some(400)), dies(5, None)] {
        pod.torn(torn);
    }
    pod.failed(at(7030));
    let judged = pod.advance(at(7031), u64::MAX);
    assert_eq!(judged.iter().map(|one| one.sure).collect::<Vec<_>>(), [true, false, false]);
}

/// Exercises streams that a look finds reset, and a proxy that ends before another one, or is another one by then, so that
/// they are told all the same, and once.
#[test]
fn last_words() {
    for restarts in [false, true] {
        let mut pod = with_proxy(false, 1);
        pod.answered(&look(5000, 10, 0, 2), at(5001));
        assert!(pod.advance(at(5002), u64::MAX).is_empty());
        if restarts {
            pod.answered(&Sample { epoch: 1, ..look(5500, 0, 0, 0) }, at(5501));
        } else {
            pod.failed(at(5501));
        }
        let judged = pod.advance(at(5502), u64::MAX);
        let found: Vec<_> = judged.iter().map(|one| (one.ending, one.count)).collect();
        assert_eq!(found, [(Ending::StreamReset, 2)], "{restarts}");
        assert!(pod.advance(at(5600), u64::MAX).is_empty());
    }
}

/// Exercises a stream that the LB resets between the last look at the counters and one at gauges only, which finds nothing
/// in flight, before the process ends: nobody has counted it, so nothing is certain.
#[test]
fn a_stream_that_nobody_counted() {
    let mut pod = with_proxy(false, 1);
    let gauges = look(4300, 0, 0, 0);
    let mut gauges = Sample { counters: None, ..gauges };
    gauges.gauges.values.downstream_rq_active = Some(0);
    gauges.gauges.values.downstream_cx_active = Some(3);
    pod.answered(&gauges, at(4301));
    pod.connected(&gauges, Some((3, 0)));
    let dies = |socket, since_read| {
        let mut torn = killed(socket, 4500, Phase::Unknown, Evidence::None);
        torn.known.protocol = Protocol::Http2;
        torn.known.received = 100;
        torn.known.since_read = Some(since_read);
        torn
    };
    // In jiffies of 4 ms: the RST_STREAM came at 4200, and nothing since 3000.
    pod.torn(dies(1, 75));
    pod.torn(dies(2, 375));
    pod.failed(at(4510));
    let judged = pod.advance(at(4511), u64::MAX);
    assert_eq!(judged.iter().map(|one| one.sure).collect::<Vec<_>>(), [false, true]);
}

/// Exercises ends after a look at an idle proxy: what has brought nothing since was not cut, whoever ended it, and though the
/// socket alone would have it possible; unless it may be another program's, or its answer is still on its way.
#[test]
fn nothing_since_an_idle_look() {
    let late_answer = |socket, how, evidence| {
        let mut torn = torn(socket, 5000, how, Phase::Streaming, evidence);
        (torn.known.received, torn.known.since_read) = (100, Some(500));
        torn
    };
    let by_peer = late_answer(1, How::RstReceived, Evidence::Possible);
    let by_pod = late_answer(2, How::FinSent, Evidence::None);
    let mut read = by_peer;
    (read.id.socket, read.known.since_read) = (3, Some(100));
    let mut unsent = by_peer;
    (unsent.id.socket, unsent.known.unacked) = (4, 10);
    let mut younger = by_peer;
    (younger.id.socket, younger.known.since_ns) = (5, 4500 * MS);
    // One that has never brought anything has no request, whatever the proxy says.
    let mut untouched = torn(6, 5000, How::FinReceived, Phase::Unknown, Evidence::None);
    untouched.known.received = 0;
    let ends = [by_peer, by_pod, read, unsent, younger, untouched];
    let judged = |mut pod: Pod| {
        for torn in ends {
            pod.torn(torn);
        }
        pod.failed(at(5001));
        let judged = pod.advance(at(5002), u64::MAX);
        judged.iter().map(|one| (one.proof, one.sure)).collect::<Vec<_>>()
    };
    let possible = (Some(Proof::Possible), false);
    assert_eq!(
        judged(with_proxy(false, 0)),
        [(None, true), (None, true), possible, possible, possible, (None, true)]
    );
    let nothing_more = [possible, (None, false), possible, possible, possible, (None, true)];
    assert_eq!(judged(with_proxy(false, 1)), nothing_more);
    let mut others = with_proxy(false, 0);
    others.connected(&look(4000, 10, 0, 0), Some((4, 0)));
    assert_eq!(judged(others), nothing_more);
    // Looks that were answered while the proxy was closing: the one before them counts, as long as it is one of the last.
    let closing = |looks: u64| {
        let mut pod = with_proxy(false, 0);
        for ms in (4_900..).take(usize::try_from(looks).unwrap()) {
            answer(&mut pod, ms, 10, 0, 0);
            pod.connected(&look(ms, 10, 0, 0), Some((1, 2)));
        }
        judged(pod)[1]
    };
    assert_eq!((closing(2), closing(3)), ((None, true), (None, false)));
}
