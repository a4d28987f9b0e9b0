use proptest::prelude::*;

use super::*;
use crate::{
    api::message::{HcStatus, PodStatus},
    console::any,
    drain::fact::{Fact, Hc, stamp},
};

const T: i64 = 1_796_059_267_000_000;

fn key(name: &str) -> Key {
    Key { namespace: "edge".to_owned(), name: name.to_owned() }
}

fn status(name: &str, uid: &str, at: i64, state: Hc) -> PodStatus {
    PodStatus {
        namespace: "edge".to_owned(),
        pod: name.to_owned(),
        uid: uid.to_owned(),
        now: stamp(T + at),
        hc: Some(HcStatus { state: Some(state), since: Some(stamp(T + at - 1)), lb_told: Some(200) }),
        downstream: Some(2),
        upstream: Some(1),
        ..PodStatus::default()
    }
}

fn tell(model: &mut Model, status: PodStatus) {
    model.apply(Incoming::Message(Message::Pod(Box::new(status))), T);
}

fn fact(model: &mut Model, name: &str, uid: &str, at: i64, fact: Fact) {
    let fact = Timed { ts: T + at, fact };
    let message = Message::Fact {
        namespace: "edge".to_owned(),
        pod: name.to_owned(),
        uid: uid.to_owned(),
        word: Word::Told,
        fact,
    };
    model.apply(Incoming::Message(message), T);
}

fn hello(model: &mut Model, at: i64) {
    let message = Message::Hello { node: Some("n".to_owned()), version: "1".to_owned(), now: stamp(T + at) };
    model.apply(Incoming::Message(message), T + at);
}

/// Exercises a pod of a stateful set that comes again under its name, so that it is followed, what is told late of the one
/// before changes nothing of the new one, and its events are kept.
#[test]
fn restart() {
    let mut model = Model::default();
    tell(&mut model, status("gw-0", "one", 100, Hc::Closed));
    tell(&mut model, status("gw-0", "two", 200, Hc::Open));
    fact(&mut model, "gw-0", "one", 150, Fact::PodGone);
    fact(&mut model, "gw-0", "one", 160, Fact::HcState { from: None, to: Some(Hc::Fault), lb_told: None });
    tell(&mut model, PodStatus { gone: true, ..status("gw-0", "one", 300, Hc::Closed) });
    let pod = model.pod_of(&key("gw-0")).unwrap();
    assert_eq!((pod.uid.as_str(), pod.is_gone()), ("two", false));
    let states = [T + 99, T + 160, T + 198, T + 200].map(|ts| pod.hc.at(ts).flatten());
    assert_eq!(states, [Some(Hc::Closed), Some(Hc::Closed), Some(Hc::Closed), Some(Hc::Open)]);
    let lines: Vec<_> = model.lines(&key("gw-0")).map(|line| line.text.as_str()).collect();
    assert_eq!(lines[0], "another pod has this name now: UID two");
    assert_eq!(lines.len(), 3);
}

/// Exercises a daemon that goes away and comes back, so that the time between is a gap, on the axis too.
#[test]
fn away() {
    let mut model = Model::default();
    hello(&mut model, 0);
    tell(&mut model, status("gw-0", "one", 100, Hc::Open));
    for at in [200, 300] {
        let gap = Message::Gap { node: Some("n".to_owned()), why: "refused".to_owned(), now: stamp(T + at) };
        model.apply(Incoming::Message(gap), T + at);
    }
    assert_eq!(model.line(), Line::Away(T + 300, "refused"));
    hello(&mut model, 2_000_000);
    assert_eq!((model.line(), model.node().as_deref()), (Line::On, Some("n")));
    tell(&mut model, status("gw-0", "one", 2_000_100, Hc::Open));
    let pod = model.pod_of(&key("gw-0")).unwrap();
    let in_flight = [300, 1_000_000, 2_000_100].map(|at| pod.in_flight.at(T + at));
    assert_eq!(in_flight, [Some(Some(2)), Some(None), Some(Some(2))]);
    let lines: Vec<_> = model.lines(&key("gw-0")).map(|line| line.text.as_str()).collect();
    let gap = "the daemon on n is not heard: refused";
    assert_eq!(lines, ["the daemon on n is heard again: 1.999 s of events were not shown", gap, gap]);
}

/// Exercises more pods and more lines than are kept, so that those that are gone and the oldest give way.
#[test]
fn bounds() {
    let mut model = Model::default();
    for number in 0..MOST_PODS + 10 {
        let gone = number % 2 == 1;
        let name = format!("gw-{number}");
        tell(&mut model, PodStatus { gone, ..status(&name, "u", 1, Hc::Open) });
    }
    assert_eq!(model.pods().count(), MOST_PODS);
    assert!(model.pod_of(&key("gw-0")).is_some() && model.pod_of(&key("gw-1")).is_none());
    for at in 0..MOST_EVENTS as i64 + 100 {
        fact(&mut model, if at % 100 == 0 { "gw-0" } else { "gw-2" }, "u", at, Fact::EnvoyDrainListeners);
    }
    let of = |name: &str| model.pod_of(&key(name)).unwrap().events.len();
    assert_eq!(of("gw-0") + of("gw-2"), MOST_EVENTS);
    assert_eq!(of("gw-0"), MOST_EVENTS / 100 + 1, "the pod with the most lines loses the oldest");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Exercises any messages, so that what is kept stays within its bounds and lines are in order.
    #[test]
    fn anything(all in prop::collection::vec(any::incoming(), 0..200)) {
        let mut model = Model::default();
        for incoming in all {
            model.apply(incoming, T);
        }
        let keys: Vec<Key> = model.pods().map(|(key, _)| key.clone()).collect();
        prop_assert!(keys.len() <= MOST_PODS);
        let kept: usize = model.pods().map(|(_, pod)| pod.events.len()).sum();
        prop_assert_eq!(kept, model.kept);
        for key in keys {
            let order: Vec<_> = model.lines(&key).map(|line| (line.ts, line.number)).collect();
            prop_assert!(order.is_sorted_by(|newer, older| newer > older));
        }
    }
}
