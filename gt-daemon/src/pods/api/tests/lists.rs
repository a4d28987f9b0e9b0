//! The first list, streamed and in pages.

use std::time::Duration;

use super::{
    begin, hasty, names, selection,
    server::{Answer, Piece, Server},
    until, until_up_with, up,
};
use crate::pods::{Deletion, selection::Selection};

/// Exercises a server that streams lists, so that one request tells all pods and every change after.
#[tokio::test]
async fn a_streaming_list() {
    let server = Server::start(|_, _| Answer::open("streaming.jsonl"));
    let mut api = begin(server.address, selection(), hasty());
    let reading = until_up_with(&mut api, &["igw-1", "igw-2"]).await;
    let pods = reading.pods.unwrap();
    assert_eq!(pods[0].containers.len(), 2);
    assert!(pods.iter().all(|pod| pod.deletion.is_none()));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let asked = server.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!((asked[0].method.as_str(), asked[0].path.as_str()), ("GET", "/api/v1/pods"));
    for (name, value) in [
        ("watch", "true"),
        ("fieldSelector", "spec.nodeName=worker-1"),
        ("allowWatchBookmarks", "true"),
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
        ("timeoutSeconds", "30"),
        ("labelSelector", ""),
    ] {
        assert_eq!(asked[0].get(name), value, "{name}");
    }
}

/// Exercises servers without streaming lists, old ones and such as have it switched off, so that an ordinary
/// list in pages follows at once, is watched from where it ended, and streaming is not tried again.
#[tokio::test]
async fn a_list_in_pages() {
    for refusal in ["no-streaming.json", "no-streaming-1.26.json"] {
        let server = Server::start(move |asked, n| match n {
            _ if asked.is_streaming() => Answer::file(422, refusal),
            _ if asked.is_watch() && n > 3 => Answer::silent(),
            // The first watch ends with a fault, for the list to be asked again.
            _ if asked.is_watch() => Answer::file(200, "internal-error-event.jsonl"),
            _ if asked.get("continue").is_empty() => Answer::file(200, "list-page-1.json"),
            _ => Answer::file(200, "list-page-2.json"),
        });
        let mut api = begin(server.address, selection(), hasty());
        until_up_with(&mut api, &["igw-1", "igw-2"]).await;
        until(&mut api, |_| server.asked().len() == 7).await;
        until_up_with(&mut api, &["igw-1", "igw-2"]).await;
        let asked = server.asked();
        let kinds: Vec<_> = asked
            .iter()
            .map(|asked| match (asked.is_streaming(), asked.is_watch()) {
                (true, _) => "streaming",
                (false, true) => "watch",
                (false, false) => "list",
            })
            .collect();
        assert_eq!(kinds, ["streaming", "list", "list", "watch", "list", "list", "watch"]);
        assert_eq!((asked[1].get("limit"), asked[1].get("fieldSelector")), ("100", "spec.nodeName=worker-1"));
        assert!(asked[2].get("continue").starts_with("eyJ2"), "{:?}", asked[2]);
        assert_eq!(asked[3].get("resourceVersion"), "2000");
    }
}

/// Exercises a page that cannot be had any more, so that the list begins anew and no half of it is told.
#[tokio::test]
async fn a_page_that_is_gone() {
    let server = Server::start(|asked, n| match n {
        0 => Answer::file(422, "no-streaming.json"),
        2 => Answer::file(410, "continue-expired.json"),
        _ if asked.is_watch() => Answer::silent(),
        _ if asked.get("continue").is_empty() => Answer::file(200, "list-page-1.json"),
        _ => Answer::file(200, "list-page-2.json"),
    });
    let mut api = begin(server.address, selection(), hasty());
    let first = until(&mut api, |reading| reading.pods.is_some()).await;
    assert_eq!((names(&first), up(&first)), (vec!["igw-1", "igw-2"], Some(true)));
    assert!(server.asked().len() <= 6, "{:?}", server.asked());
}

/// Exercises a server that takes the parameters and never tells that the list is whole: ordinary lists then.
#[tokio::test]
async fn a_streaming_list_without_end() {
    let silent = || Answer::silent();
    let unended = || {
        let all = super::recorded("streaming.jsonl");
        let but_the_end: String = all.lines().take(3).map(|line| format!("{line}\n")).collect();
        Answer::text(200, &but_the_end)
    };
    for (name, first) in [
        ("silent", silent()),
        ("silent after the pods", unended().then(Piece::Hang)),
        ("ends after the pods", unended()),
    ] {
        let server = Server::start(move |asked, _| match (asked.is_streaming(), asked.is_watch()) {
            (true, _) => first.clone(),
            (false, true) => Answer::silent(),
            (false, false) => Answer::file(200, "list-page-2.json"),
        });
        let mut api = begin(server.address, selection(), hasty());
        until_up_with(&mut api, &["igw-2"]).await;
        let ordinary = server.asked().iter().filter(|asked| !asked.is_streaming()).count();
        assert!((1..=2).contains(&ordinary) && server.asked().len() <= 4, "{name}: {:?}", server.asked());
    }
}

/// Exercises a list that comes in small parts over some time, so that being slow is no fault.
#[tokio::test]
async fn a_slow_list() {
    let text = super::recorded("streaming.jsonl");
    let pieces = text
        .as_bytes()
        .chunks(text.len() / 10)
        .flat_map(|part| {
            [Piece::Text(String::from_utf8_lossy(part).into_owned()), Piece::Wait(Duration::from_millis(20))]
        })
        .chain([Piece::Hang])
        .collect();
    let answer = Answer::body(pieces).late(Duration::from_millis(200));
    let server = Server::start(move |_, _| answer.clone());
    let mut manner = hasty();
    manner.limits.answer = Duration::from_secs(10);
    manner.timing.list = Duration::from_secs(20);
    let mut api = begin(server.address, selection(), manner);
    let first = until(&mut api, |reading| !reading.places.is_empty()).await;
    assert_eq!((names(&first), up(&first), server.asked().len()), (vec!["igw-1", "igw-2"], Some(true), 1));
}

/// Exercises labels and namespaces, so that the server is asked for no more than what is selected.
#[tokio::test]
async fn a_selection() {
    let server = Server::start(|asked, _| match asked.path.as_str() {
        "/api/v1/namespaces/edge/pods" => Answer::open("streaming.jsonl"),
        "/api/v1/namespaces/lb/pods" => Answer::file(403, "forbidden.json"),
        other => Answer::text(500, other),
    });
    let selection = Selection {
        namespaces: ["edge".to_owned(), "lb".to_owned()].into(),
        labels: "app in (igw,web),!test".parse().unwrap(),
        ..selection()
    };
    let mut api = begin(server.address, selection, hasty());
    let reading = until(&mut api, |reading| up(reading) == Some(false) && names(reading).len() == 2).await;
    assert_eq!(names(&reading), ["igw-1", "igw-2"]);
    assert!(super::fault(&reading).contains("in namespace lb"), "{}", super::fault(&reading));
    for asked in server.asked() {
        let selector = asked.get("labelSelector");
        assert_eq!(selector, "app in (igw,web),!test");
    }
}

/// Exercises a whole pod, as servers send it, so that what reaches the tracker is what is used.
#[tokio::test]
async fn a_pod() {
    let pod: serde_json::Value = serde_json::from_str(&super::recorded("gateway-deleting.json")).unwrap();
    let added = serde_json::json!({"type": "ADDED", "object": pod}).to_string() + "\n";
    let end = super::recorded("streaming.jsonl").lines().last().unwrap().to_owned() + "\n";
    let server = Server::start(move |_, _| Answer::text(200, &(added.clone() + &end)).then(Piece::Hang));
    let mut api = begin(server.address, selection(), hasty());
    let reading = until_up_with(&mut api, &["igw-6d8f9c7b5-x2kqp"]).await;
    let pod = &reading.pods.unwrap()[0];
    assert_eq!(pod.deletion.map(|Deletion { grace, .. }| grace), Some(Duration::from_secs(120)));
}
