use std::time::{Duration, SystemTime};

use super::*;
use crate::{
    lab::{
        api_pod::Deletion,
        clients::Answer,
        plan::Wish,
        record::{Client, Gt, HaProxy},
    },
    stage::{
        client::Seen,
        counts::Kind,
        resets::Reset,
        wire::{Connection, End},
    },
};

fn s1() -> Play {
    let wish = Wish {
        which: Which::S1,
        mode: None,
        seconds: None,
        repeat: None,
        http1: false,
        http2: false,
        short: true,
    };
    wish.plays().unwrap()[0]
}

/// A round of S1 as it should be: one request cut at DOWN, by FIN and RST.
pub(in crate::lab) fn good() -> Record {
    let packets = BTreeMap::from([(End::FinReceived, 1), (End::RstReceived, 1)]);
    let connection =
        Connection { end: Some(End::FinReceived), rst: Some(End::RstReceived), lines: Vec::new() };
    let cut = Kind::new(&[("how", "fin_received"), ("cause", "lb_flush"), ("hc_state", "CLOSING")]);
    let answer = Answer {
        path: "/sleep?ms=2000&at=worker1-0".to_owned(),
        begun: SystemTime::UNIX_EPOCH,
        took: Duration::from_secs(1),
        seen: Seen { status: Some(502), whole: true, lines: 3, error: None },
    };
    let pod = Pod {
        name: "a".to_owned(),
        server: "worker1-0".to_owned(),
        deletion: Some(Deletion { asked: 1_796_036_280, grace: 34 }),
        requests: 1,
        envoy_cut: 1,
        killed: 0,
        packets: packets.clone(),
        resets: BTreeMap::from([(("data", Reset::Received), vec!["a line".to_owned()])]),
        connections: BTreeMap::from([("10.77.1.1.40000".to_owned(), connection)]),
        transitions: ["OPEN>DRAINING", "DRAINING>CLOSING", "CLOSING>CLOSED"].map(str::to_owned).to_vec(),
        gt: Gt {
            cuts: vec![(cut, 1.0)],
            cut_rsts: vec![(Kind::new(&[("direction", "received")]), 1.0)],
            rsts: vec![(Kind::new(&[("class", "data"), ("direction", "received")]), 1.0)],
            drain_started: Some(1_796_036_280.0),
            verdicts: Some(BTreeMap::from([("broken".to_owned(), 1.0)])),
        },
    };
    Record {
        client: Client { answers: vec![answer], ..Client::default() },
        haproxy: HaProxy {
            sessions: BTreeMap::from([("DH--".to_owned(), 1)]),
            cut: BTreeMap::from([("worker1-0".to_owned(), 1)]),
            bad: 1,
            downs: 1,
            ..HaProxy::default()
        },
        at_lb: packets.clone(),
        at_workers: packets,
        at_client: BTreeMap::new(),
        pods: vec![pod],
    }
}

/// Exercises each witness by itself so that a word of his that differs from the others' is never passed over.
#[test]
fn one_witness_against_the_others() {
    assert_eq!(disagreements(&s1(), &good()), Vec::<String>::new());
    type Change = fn(&mut Record);
    let changes: [(&str, Change); 13] = [
        ("client", |record| record.client.answers[0].seen.status = Some(200)),
        ("client served", |record| record.client.answers.clear()),
        ("HAProxy's cut", |record| record.haproxy.cut.clear()),
        ("HAProxy's log", |record| record.haproxy.bad = 0),
        ("Envoy", |record| record.pods[0].envoy_cut = 0),
        ("the wire", |record| record.pods[0].resets.clear()),
        ("the wire at the load balancer", |record| record.at_lb.clear()),
        ("the wire at the workers", |record| record.at_workers.clear()),
        ("the sidecar", |record| drop(record.pods[0].transitions.pop())),
        ("gt's cuts", |record| record.pods[0].gt.cuts.clear()),
        ("gt's RSTs", |record| record.pods[0].gt.rsts.clear()),
        ("gt's RSTs in flight", |record| record.pods[0].gt.cut_rsts.clear()),
        ("gt's verdict", |record| {
            record.pods[0].gt.verdicts = Some(BTreeMap::from([("protected".to_owned(), 1.0)]));
        }),
    ];
    for (who, change) in changes {
        let mut record = good();
        change(&mut record);
        assert_ne!(disagreements(&s1(), &record), Vec::<String>::new(), "{who}");
    }
}

/// Exercises a kept connection that HAProxy closed without a word so that the client's loss is no disagreement, and any other is.
#[test]
fn a_request_without_a_word() {
    let mut record = good();
    record.client.load.sent = 1;
    record.client.load.broken = 1;
    assert_eq!(disagreements(&s1(), &record), Vec::<String>::new());
    record.client.load.broken = 0;
    record.client.load.good = 1;
    assert_ne!(disagreements(&s1(), &record), Vec::<String>::new());
}

/// Exercises verdicts that are missing so that a daemon without them is no failure, and one that is late is.
#[test]
fn a_verdict_that_is_not_told() {
    let mut record = good();
    record.pods[0].gt.verdicts = None;
    assert_eq!(disagreements(&s1(), &record), Vec::<String>::new());
    record.pods[0].gt.verdicts = Some(BTreeMap::new());
    assert_eq!(disagreements(&s1(), &record).len(), 1);
}
