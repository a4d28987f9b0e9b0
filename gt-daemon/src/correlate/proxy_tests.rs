//! Looks and teardowns in an order that is written down, and in any order.

use std::net::SocketAddr;

use gt_common::connection::{Evidence, HcState, How, Lane, Phase, Protocol};
use proptest::prelude::*;

use super::*;
use crate::{
    clock::Moment,
    correlate::torn::Torn,
    envoy::sample::{Counters, Gauges, Read},
    probes::decode::{Known, Observed, What},
};

const MS: u64 = 1_000_000;

/// A teardown at a millisecond, told apart by `socket`.
pub(crate) fn torn(socket: u64, at_ms: u64, how: How, phase: Phase, evidence: Evidence) -> Torn {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let known = Known {
        since_ns: 1,
        adopted: false,
        since_read: None,
        protocol: Protocol::Http1,
        how,
        exiting: false,
        rst_counted: false,
        phase,
        evidence,
        hc: HcState::Unknown,
        received: 100,
        sent: 0,
        unread: 0,
        unsent: 0,
        unacked: 0,
        since_sent: 0,
    };
    let event = Observed {
        time_ns: at_ms * MS,
        what: What::Teardown(how),
        slot: 1,
        lane: Lane::Data,
        local: nowhere,
        remote: nowhere,
        socket: Some(socket),
        netns: None,
        first: true,
        connection: Some(known),
    };
    Torn::of(&event).unwrap()
}

fn awaiting(socket: u64, at_ms: u64) -> Torn {
    torn(socket, at_ms, How::FinReceived, Phase::Awaiting, Evidence::Socket)
}

fn idle(socket: u64, at_ms: u64) -> Torn {
    torn(socket, at_ms, How::FinReceived, Phase::Idle, Evidence::None)
}

/// A look of one millisecond's length.
pub(crate) fn look(at_ms: u64, ended: u64, remote: u64, requests: u64) -> Sample {
    let at = |ms: u64| Moment { monotonic_ns: ms * MS, utc_us: 0 };
    let values = Counters {
        downstream_cx_destroy: Some(ended),
        downstream_cx_destroy_remote_active_rq: Some(remote),
        downstream_cx_destroy_local_active_rq: Some(0),
        downstream_rq_rx_reset: Some(requests),
        ..Counters::default()
    };
    let (begun, ended) = (at(at_ms), at(at_ms + 1));
    Sample {
        epoch: 0,
        gauges: Read { begun, ended, values: Gauges::default() },
        counters: Some(Read { begun, ended, values }),
    }
}

/// A proxy of which everything is known up to the 4000th millisecond.
fn settled() -> Proxy {
    let mut proxy = Proxy::default();
    for at in [0, 2000, 4000] {
        proxy.look(&look(at, 10, 0, 0));
        assert!(proxy.decide(u64::MAX).is_empty());
    }
    assert!(proxy.base.is_some_and(|base| base.complete));
    proxy
}

fn words(settled: &[Settled]) -> Vec<(u64, Said)> {
    let mut words: Vec<_> =
        settled.iter().flat_map(|settled| &settled.said).map(|(id, said)| (id.socket, *said)).collect();
    words.sort_by_key(|(socket, _)| *socket);
    words
}

/// Exercises one cut among idle ends, so that it takes two looks, and then each has its word.
#[test]
fn exact_words() {
    let mut proxy = settled();
    for torn in [idle(1, 5000), awaiting(2, 5001), idle(3, 5002)] {
        proxy.torn(&torn, torn.known.evidence != Evidence::None);
    }
    proxy.look(&look(5010, 13, 1, 1));
    assert!(proxy.decide(u64::MAX).is_empty() && proxy.wants(5020 * MS));
    proxy.look(&look(5020, 13, 1, 1));
    let settled = proxy.decide(u64::MAX);
    assert_eq!(words(&settled), [(1, Said::No), (2, Said::Yes), (3, Said::No)]);
    assert_eq!((settled[0].streams, settled[0].unseen), (0, 0));
    assert!(!proxy.wants(5030 * MS));
}

/// Exercises a proxy that has not noticed an end yet, so that nothing is said too early.
#[test]
fn a_proxy_that_is_behind() {
    let mut proxy = settled();
    proxy.torn(&awaiting(1, 5000), true);
    proxy.torn(&awaiting(2, 5005), true);
    for at in [5010, 5020, 5030] {
        proxy.look(&look(at, 11, 0, 0));
        assert!(proxy.decide(u64::MAX).is_empty());
    }
    for at in [5040, 5050] {
        proxy.look(&look(at, 12, 1, 1));
    }
    assert_eq!(words(&proxy.decide(u64::MAX)), [(1, Said::Yes), (2, Said::No)]);
}

/// Exercises a look whose rows were read while a cut was being counted, so that it is not taken for final.
#[test]
fn a_torn_look() {
    let mut proxy = settled();
    proxy.torn(&awaiting(1, 5000), true);
    proxy.look(&look(5010, 11, 0, 0));
    proxy.look(&look(5020, 11, 1, 0));
    assert!(proxy.decide(u64::MAX).is_empty());
    proxy.look(&look(5030, 11, 1, 1));
    assert!(proxy.decide(u64::MAX).is_empty());
    proxy.look(&look(5040, 11, 1, 1));
    assert_eq!(words(&proxy.decide(u64::MAX)), [(1, Said::Yes)]);
}

/// Exercises an event that is late, so that looks wait for the kernel's events.
#[test]
fn events_go_first() {
    let mut proxy = settled();
    proxy.torn(&awaiting(1, 5000), true);
    // Another one ended, and is the only one the proxy has noticed so far.
    for at in [5010, 5020] {
        proxy.look(&look(at, 11, 0, 0));
    }
    assert!(proxy.decide(5009 * MS).is_empty());
    proxy.torn(&idle(2, 5005), false);
    assert!(proxy.decide(5030 * MS).is_empty());
    for at in [5040, 5050] {
        proxy.look(&look(at, 12, 1, 1));
    }
    assert_eq!(words(&proxy.decide(u64::MAX)), [(1, Said::Yes), (2, Said::No)]);
}

/// Exercises an event that is later than any should be, and comes between the two looks, so that it is not taken for one that
/// the first of them has counted.
#[test]
fn an_event_that_is_too_late() {
    let mut proxy = settled();
    proxy.torn(&idle(1, 5000), false);
    proxy.look(&look(5010, 11, 0, 0));
    assert!(proxy.decide(u64::MAX).is_empty());
    proxy.torn(&awaiting(2, 5005), true);
    proxy.look(&look(5020, 11, 0, 0));
    assert!(proxy.decide(u64::MAX).is_empty());
    for at in [5030, 5040] {
        proxy.look(&look(at, 12, 1, 1));
    }
    assert_eq!(words(&proxy.decide(u64::MAX)), [(1, Said::No), (2, Said::Yes)]);
}

/// Exercises connections that the proxy does not count, so that nobody waits for ever and nothing is called exact.
#[test]
fn numbers_that_never_fit() {
    let mut proxy = settled();
    proxy.torn(&awaiting(1, 5000), true);
    proxy.torn(&awaiting(2, 5001), true);
    for at in [5010, 5020] {
        proxy.look(&look(at, 11, 1, 1));
    }
    assert!(proxy.decide(u64::MAX).is_empty());
    proxy.look(&look(7600, 11, 1, 1));
    assert!(proxy.decide(u64::MAX).len() == 1, "calm since long");
    let mut proxy = settled();
    for (socket, at) in [(1, 5000), (2, 6000), (3, 7000), (4, 7500)] {
        proxy.torn(&awaiting(socket, at), true);
    }
    proxy.look(&look(7600, 12, 2, 2));
    assert_eq!(
        words(&proxy.decide(u64::MAX)),
        [(1, Said::Yes), (2, Said::Yes), (3, Said::Unknown), (4, Said::Unknown)]
    );
    assert!(!proxy.base.is_some_and(|base| base.complete));
}

/// Exercises streams that are reset while their connection lives on, and a connection that is cut with three of them.
#[test]
fn streams() {
    let mut proxy = settled();
    for at in [5000, 5010] {
        proxy.look(&look(at, 10, 0, 4));
    }
    let settled = proxy.decide(u64::MAX);
    assert_eq!((settled.len(), settled[0].streams, settled[0].unseen), (1, 4, 0));
    proxy.torn(&torn(1, 6000, How::FinReceived, Phase::Unknown, Evidence::None), false);
    for at in [6010, 6020] {
        proxy.look(&look(at, 11, 1, 7));
    }
    let settled = proxy.decide(u64::MAX);
    assert_eq!((words(&settled), settled[0].streams), (vec![(1, Said::Yes)], 2));
}

/// Exercises a cut of a connection whose end was not seen, so that it is told all the same.
#[test]
fn unseen() {
    let mut proxy = settled();
    for at in [5000, 5010, 8000, 8010] {
        proxy.look(&look(at, 11, 1, 1));
    }
    let settled = proxy.decide(u64::MAX);
    assert_eq!((settled.len(), settled[0].unseen), (1, 1));
    // And everything fits again, when there was nothing of the kind for long.
    proxy.torn(&awaiting(1, 700_000), true);
    for at in [700_010, 700_020] {
        proxy.look(&look(at, 12, 1, 1));
    }
    assert_eq!(words(&proxy.decide(u64::MAX)), [(1, Said::No)]);
}

/// Exercises a proxy that also ends health checks, one every two seconds, and a user's connection that it does not count (it
/// is no HTTP): the numbers fit when a check has ended, and nothing follows from that.
#[test]
fn numbers_that_fit_by_chance() {
    let mut proxy = settled();
    let mut ended = 10;
    for at in (4500..60_000).step_by(500) {
        ended += u64::from(at % 2000 == 0);
        proxy.look(&look(at, ended, 0, 0));
        assert!(proxy.decide(u64::MAX).is_empty());
    }
    let tls = torn(1, 60_100, How::FinReceived, Phase::Unknown, Evidence::None);
    proxy.torn(&tls, false);
    for at in [60_500, 61_000, 62_000, 62_500, 63_000, 64_000, 64_500, 66_000, 66_500, 95_000] {
        ended += u64::from(at % 2000 == 0);
        proxy.look(&look(at, ended, 0, 0));
        assert!(words(&proxy.decide(u64::MAX)).iter().all(|(_, said)| *said == Said::Unknown));
    }
}

/// Exercises a proxy that was started anew, so that nothing is compared across.
#[test]
fn another_process() {
    let mut proxy = settled();
    proxy.torn(&awaiting(1, 5000), true);
    let anew = |at| Sample { epoch: 1, ..look(at, 0, 0, 0) };
    proxy.look(&anew(5010));
    assert_eq!(words(&proxy.decide(u64::MAX)), [(1, Said::Unknown)]);
    proxy.torn(&awaiting(2, 5020), true);
    for at in [5030, 5040] {
        proxy.look(&Sample { epoch: 1, ..look(at, 1, 0, 0) });
    }
    // What ended before the first look is not known, so nothing fits yet.
    assert!(proxy.decide(u64::MAX).is_empty());
}

/// Exercises a proxy that does not keep a stat, so that nothing follows from what is missing.
#[test]
fn missing_stats() {
    let mut proxy = settled();
    proxy.torn(&awaiting(1, 5000), true);
    let mut sample = look(5010, 0, 0, 0);
    if let Some(counters) = &mut sample.counters {
        counters.values.downstream_cx_destroy = None;
    }
    proxy.look(&sample);
    proxy.look(&sample);
    assert!(proxy.decide(u64::MAX).is_empty());
    let mut sample = look(9000, 0, 0, 0);
    sample.counters = None;
    proxy.look(&sample);
    assert!(proxy.decide(u64::MAX).is_empty());
}

/// One step of a proxy's life.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A connection ends, with a request in flight or without; the phase that the socket shows may be wrong.
    End { cut: bool, shows: bool },
    /// The proxy notices the oldest end that it has not noticed.
    Notice,
    /// A stream is reset.
    Stream,
    /// Somebody looks.
    Look,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (any::<bool>(), any::<bool>()).prop_map(|(cut, shows)| Step::End { cut, shows }),
        3 => Just(Step::Notice),
        1 => Just(Step::Stream),
        3 => Just(Step::Look),
    ]
}

proptest! {
    /// Exercises any life of a proxy: what is called cut is as many as the proxy counts, at every time not more and in the
    /// end the same; and where `No` is said, there are no fewer cuts called than there were.
    #[test]
    fn the_sum_is_the_proxys(steps in prop::collection::vec(step(), 0..120)) {
        let mut proxy = settled();
        let (mut ended, mut remote, mut requests) = (10, 0, 0);
        let (mut at, mut socket) = (4001, 0);
        let mut unnoticed = VecDeque::new();
        let mut truth = Vec::new();
        let (mut yes, mut streams, mut unseen) = (0, 0, 0);
        let take = |proxy: &mut Proxy, truth: &[u64], yes: &mut u64, streams: &mut u64, unseen: &mut u64| {
            for settled in proxy.decide(u64::MAX) {
                let is = |word| settled.said.iter().filter(move |(_, said)| *said == word).count();
                let cut = settled.said.iter().filter(|(id, _)| truth.contains(&id.socket)).count();
                assert!(is(Said::No) == 0 || is(Said::Yes) == cut, "{settled:?}");
                *yes += is(Said::Yes) as u64;
                *streams += settled.streams;
                *unseen += settled.unseen;
            }
        };
        for step in steps {
            at += 7;
            match step {
                Step::End { cut, shows } => {
                    socket += 1;
                    let torn = if shows { awaiting(socket, at) } else { idle(socket, at) };
                    proxy.torn(&torn, shows);
                    truth.extend(cut.then_some(socket));
                    unnoticed.push_back(cut);
                }
                Step::Notice => {
                    if let Some(cut) = unnoticed.pop_front() {
                        ended += 1;
                        remote += u64::from(cut);
                        requests += u64::from(cut);
                    }
                }
                Step::Stream => requests += 1,
                Step::Look => {
                    proxy.look(&look(at, ended, remote, requests));
                    take(&mut proxy, &truth, &mut yes, &mut streams, &mut unseen);
                    prop_assert!(yes + unseen <= remote && streams <= requests - remote);
                }
            }
        }
        for cut in unnoticed {
            ended += 1;
            remote += u64::from(cut);
            requests += u64::from(cut);
        }
        for later in [10_000, 10_010, 14_000, 14_010, 14_020] {
            proxy.look(&look(at + later, ended, remote, requests));
            take(&mut proxy, &truth, &mut yes, &mut streams, &mut unseen);
        }
        prop_assert_eq!((yes + unseen, streams), (remote, requests - remote));
    }
}
