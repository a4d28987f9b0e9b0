//! The kubelet's directories in the place of an API that is away.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use super::{
    Reading, begin, hasty, names, selection,
    server::{Answer, Server},
};
use crate::pods::{
    fallback::Fallback,
    selection::Selection,
    source::{Place, Source as _},
};

const PATIENCE: Duration = Duration::from_millis(1500);

/// A log directory as a kubelet makes it.
fn log(root: &Path, pod: &str, uid: &str, container: &str) {
    fs::create_dir_all(root.join(format!("edge_{pod}_{uid}")).join(container)).unwrap();
}

/// The UID in the recorded answers.
fn uid(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

async fn until(source: &mut Fallback, what: impl Fn(&Reading) -> bool) -> Reading {
    let began = Instant::now();
    loop {
        let reading = source.read(Instant::now());
        if what(&reading) {
            return reading;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "still {reading:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn places(reading: &Reading) -> Vec<(&str, bool)> {
    reading.places.iter().map(|Place { name, fault }| (*name, fault.is_none())).collect()
}

/// Exercises an API that goes and comes back, so that nothing known is lost, pods that appear meanwhile are
/// watched, and those that the kubelet has cleared away are not; and that the API alone counts when it is back.
#[tokio::test]
async fn away_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_owned();
    log(&root, "igw-1", &uid(1), "hc");
    log(&root, "igw-2", &uid(3), "hc");
    // The API has told that this one has no container hc; its directory must not say otherwise.
    log(&root, "app-1", &uid(2), "hc");

    let server = Server::start(|_, _| Answer::open("streaming.jsonl"));
    let address = server.address;
    let api = begin(address, selection(), hasty());
    let mut source = Fallback::new(api, root.clone(), PATIENCE);
    let first = until(&mut source, |reading| reading.pods.is_some()).await;
    assert_eq!((names(&first), places(&first)), (vec!["igw-1", "igw-2"], vec![("api", true)]));

    drop(server);
    let gone = until(&mut source, |reading| places(reading) != [("api", true)]).await;
    assert_eq!((names(&gone), places(&gone)), (vec!["igw-1", "igw-2"], vec![("api", false)]));
    log(&root, "igw-9", "u-9", "hc");
    log(&root, "web-9", "u-10", "app");
    let stands_in = until(&mut source, |reading| names(reading).len() == 3).await;
    assert_eq!(names(&stands_in), ["igw-1", "igw-2", "igw-9"]);
    assert_eq!(places(&stands_in), [("api", false), ("kubelet", true)]);
    fs::remove_dir_all(root.join(format!("edge_igw-2_{}", uid(3)))).unwrap();
    assert_eq!(names(&source.read(Instant::now())), ["igw-1", "igw-9"]);
    // A directory that cannot be read tells nothing, and takes nothing away.
    fs::rename(&root, root.with_extension("away")).unwrap();
    let blind = source.read(Instant::now());
    assert_eq!(
        (names(&blind), places(&blind)),
        (vec!["igw-1", "igw-9"], vec![("api", false), ("kubelet", false)])
    );
    fs::rename(root.with_extension("away"), &root).unwrap();

    let _server = Server::start_at(address, |_, _| Answer::open("later.jsonl"));
    let back = until(&mut source, |reading| places(reading) == [("api", true)]).await;
    assert_eq!(names(&back), ["igw-4"]);
}

/// Exercises an API that is away from the beginning, so that the daemon works by the kubelet's directories, and
/// that none is watched whose labels would have to be known.
#[tokio::test]
async fn away_from_the_beginning() {
    let dir = tempfile::tempdir().unwrap();
    log(dir.path(), "igw-1", &uid(1), "hc");
    for (labels, expected) in [("", vec!["igw-1"]), ("app=igw", vec![])] {
        let server = Server::start(|_, _| Answer::file(401, "unauthorized.json"));
        let selection = Selection { labels: labels.parse().unwrap(), ..selection() };
        let began = Instant::now();
        let mut source =
            Fallback::new(begin(server.address, selection, hasty()), dir.path().to_owned(), PATIENCE);
        let first = until(&mut source, |reading| reading.pods.is_some()).await;
        assert_eq!(names(&first), expected, "{labels:?}");
        assert!(began.elapsed() >= PATIENCE && places(&first) == [("api", false), ("kubelet", true)]);
    }
}
