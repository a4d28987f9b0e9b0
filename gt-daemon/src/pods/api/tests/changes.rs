//! What happens after the first list.

use std::time::Duration;

use super::{
    begin, hasty, names, recorded, selection,
    server::{Answer, Piece, Server},
    until, until_up_with, up,
};

/// Exercises every kind of event, so that the pods are those of the API, and a watch that ends is resumed from
/// the last event or bookmark without a list.
#[tokio::test]
async fn events() {
    let server = Server::start(|_, n| match n {
        0 => Answer::file(200, "streaming.jsonl").then(Piece::Text(recorded("changes.jsonl"))),
        _ => Answer::silent(),
    });
    let mut api = begin(server.address, selection(), hasty());
    let reading = until_up_with(&mut api, &["igw-1", "igw-3"]).await;
    let pods = reading.pods.unwrap();
    assert!(pods[0].deletion.is_some() && pods[1].deletion.is_none());
    until(&mut api, |_| server.asked().len() == 2).await;
    let resumed = &server.asked()[1];
    assert_eq!(
        (resumed.is_watch(), resumed.is_streaming(), resumed.get("resourceVersion")),
        (true, false, "2005")
    );
    assert_eq!(up(&until_up_with(&mut api, &["igw-1", "igw-3"]).await), Some(true));
}

/// Exercises a past that is gone, told by the status of an answer and by an event, so that pods are listed anew
/// at once, those known before stay meanwhile, and the API counts as up all along.
#[tokio::test]
async fn expired() {
    for (name, answer) in
        [("status", Answer::file(410, "expired.json")), ("event", Answer::file(200, "expired-event.jsonl"))]
    {
        let sound = Duration::from_millis(150);
        let server = Server::start(move |_, n| match n {
            0 => Answer::file(200, "streaming.jsonl").then(Piece::Wait(sound)),
            1 => answer.clone(),
            _ => Answer::open("later.jsonl").late(Duration::from_millis(100)),
        });
        let mut manner = hasty();
        manner.timing.least = Duration::from_secs(5);
        manner.timing.most = Duration::from_secs(5);
        let mut api = begin(server.address, selection(), manner);
        until_up_with(&mut api, &["igw-1", "igw-2"]).await;
        let next =
            until(&mut api, |reading| up(reading) != Some(true) || names(reading) != ["igw-1", "igw-2"])
                .await;
        assert_eq!((names(&next), up(&next)), (vec!["igw-4"], Some(true)), "{name}");
        let asked = server.asked();
        let streaming: Vec<_> = asked.iter().map(super::server::Asked::is_streaming).collect();
        assert_eq!(streaming, [true, false, true], "{name}");
        assert!(asked[2].at - asked[1].at < Duration::from_secs(4), "{name}: not at once");
    }
}

/// Exercises a connection that breaks in the middle of an event, so that the event comes with the resumed watch
/// and none is made of the half.
#[tokio::test]
async fn a_break_in_the_middle_of_a_line() {
    let changes = recorded("changes.jsonl");
    let half = changes[..changes.len() / 3].to_owned();
    let server = Server::start(move |asked, n| match n {
        0 => Answer::file(200, "streaming.jsonl")
            .then(Piece::Text(half.clone()))
            .then(Piece::Wait(Duration::from_millis(50)))
            .then(Piece::Cut),
        _ if asked.is_streaming() => Answer::open("streaming.jsonl"),
        _ => Answer::open("changes.jsonl"),
    });
    let mut api = begin(server.address, selection(), hasty());
    until_up_with(&mut api, &["igw-1", "igw-2"]).await;
    let later =
        until(&mut api, |reading| names(reading) != ["igw-1", "igw-2"] && names(reading).len() == 2).await;
    assert_eq!(names(&later), ["igw-1", "igw-3"]);
    assert!(server.asked().len() <= 3, "{:?}", server.asked());
}

/// Exercises an error in the middle of a watch, so that it is told, costs no pod, and a list follows.
#[tokio::test]
async fn an_error_event() {
    let server = Server::start(|_, n| match n {
        0 => Answer::file(200, "streaming.jsonl").then(Piece::Text(recorded("internal-error-event.jsonl"))),
        _ => Answer::open("later.jsonl"),
    });
    let mut api = begin(server.address, selection(), hasty());
    let down = super::until_down(&mut api).await;
    assert_eq!(names(&down), ["igw-1", "igw-2"]);
    assert!(super::fault(&down).contains("etcdserver: request timed out"), "{}", super::fault(&down));
    until_up_with(&mut api, &["igw-4"]).await;
    super::settled(&server, 2).await;
}
