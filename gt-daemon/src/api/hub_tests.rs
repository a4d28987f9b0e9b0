use tokio::sync::Semaphore;

use super::*;

fn about<'a>(pod: &'a str, labels: &'a BTreeMap<String, String>) -> About<'a> {
    About { namespace: "edge", pod, labels: Some(labels) }
}

fn ask(pod: &str) -> Ask {
    Ask { pods: vec![pod.parse().unwrap()], ..Ask::default() }
}

/// A message that can be told from others.
fn numbered(number: u64) -> Message {
    Message::Hello { node: None, version: number.to_string(), now: String::new() }
}

fn drain(receiver: &mut mpsc::Receiver<Arc<Message>>) -> Vec<Message> {
    std::iter::from_fn(|| receiver.try_recv().ok()).map(|message| (*message).clone()).collect()
}

/// Exercises a slow reader beside a quick one, so that the slow one alone loses messages, hears how many where they are missing,
/// and no queue grows beyond its bound.
#[test]
fn a_slow_reader_loses_its_own() {
    let (places, labels) = (Arc::new(Semaphore::new(2)), BTreeMap::new());
    let mut hub = Hub::default();
    let [(slow, mut slowly), (quick, mut quickly)] =
        [(); 2].map(|()| Reader::new(Ask::default(), Arc::clone(&places).try_acquire_owned().unwrap()));
    hub.enter(slow);
    hub.enter(quick);
    let mut heard = Vec::new();
    let most = ROOM as u64;
    for number in 0..most + 500 {
        hub.publish(about("igw", &labels), || numbered(number));
        heard.extend(drain(&mut quickly));
    }
    assert_eq!(heard, (0..most + 500).map(numbered).collect::<Vec<_>>());
    assert_eq!(slowly.len(), ROOM);
    assert_eq!(drain(&mut slowly), (0..most).map(numbered).collect::<Vec<_>>());
    hub.publish(about("igw", &labels), || numbered(9999));
    assert_eq!(drain(&mut slowly), [Message::Lost { messages: 500 }, numbered(9999)]);
    hub.tick(0);
    assert_eq!(drain(&mut slowly), [], "what was lost is told once");
}

/// Exercises a loss after which nothing happens, so that it is told all the same.
#[test]
fn a_loss_is_told_when_nothing_follows() {
    let (places, labels) = (Arc::new(Semaphore::new(1)), BTreeMap::new());
    let mut hub = Hub::default();
    let (reader, mut receiver) = Reader::new(ask("igw"), places.try_acquire_owned().unwrap());
    hub.enter(reader);
    for number in 0..=ROOM as u64 {
        hub.publish(about("igw", &labels), || numbered(number));
    }
    hub.tick(0);
    assert_eq!(drain(&mut receiver).len(), ROOM);
    hub.tick(1);
    assert_eq!(drain(&mut receiver), [Message::Lost { messages: 1 }]);
}

/// Exercises pods that nobody asks for, so that nothing is made for them.
#[test]
fn nothing_is_made_for_nobody() {
    let (places, labels) = (Arc::new(Semaphore::new(1)), BTreeMap::new());
    let mut hub = Hub::default();
    assert!(!hub.is_heard());
    hub.publish(about("igw", &labels), || panic!("nobody listens"));
    let (reader, mut receiver) = Reader::new(ask("igw"), places.try_acquire_owned().unwrap());
    hub.enter(reader);
    hub.publish(about("other", &labels), || panic!("nobody asks for this pod"));
    assert!(hub.is_heard() && hub.wants(about("igw", &labels)) && !hub.wants(about("other", &labels)));
    hub.publish(about("igw", &labels), || numbered(1));
    assert_eq!(drain(&mut receiver), [numbered(1)]);
}

/// Exercises readers that are gone, and one that takes nothing any more, so that their places are free again.
#[test]
fn places_come_back() {
    let (places, labels) = (Arc::new(Semaphore::new(2)), BTreeMap::new());
    let mut hub = Hub::default();
    let reader = || Reader::new(Ask::default(), Arc::clone(&places).try_acquire_owned().unwrap());
    let (gone, receiver) = reader();
    drop(receiver);
    hub.enter(gone);
    let (stuck, mut receiver) = reader();
    hub.enter(stuck);
    assert_eq!(places.available_permits(), 0);
    hub.tick(0);
    assert_eq!(places.available_permits(), 1);
    for number in 0..=ROOM as u64 {
        hub.publish(about("igw", &labels), || numbered(number));
    }
    hub.tick(1);
    hub.tick(1 + STUCK);
    assert!(hub.is_heard());
    hub.tick(2 + STUCK);
    assert!(!hub.is_heard() && places.available_permits() == 2);
    assert_eq!(drain(&mut receiver).len(), ROOM, "what was told is there still");
    assert!(receiver.is_closed());
}
