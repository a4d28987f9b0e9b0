use std::fs;

use super::*;
use crate::console::model::Model;

fn all(path: &Path) -> anyhow::Result<Vec<Incoming>> {
    let mut recorded = Recorded::open(path)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut all = Vec::new();
    while let Some(incoming) = runtime.block_on(recorded.next()) {
        all.push(incoming);
    }
    Ok(all)
}

fn testdata(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/drains").join(name)
}

/// Exercises real records with what the daemon made of them and without it, so that the same verdict ends both.
#[test]
fn records() {
    for name in ["broken", "protected", "inconclusive"] {
        let with = all(&testdata(name)).unwrap();
        let Some(Incoming::Message(Message::Verdict(told))) = with.last() else {
            panic!("{name}: no verdict")
        };
        assert_eq!(told.verdict.word(), name);
        let alone = tempfile::tempdir().unwrap();
        let directory = alone.path().join("20261130T172106.863394Z_istio-system_gw-1_8d67");
        fs::create_dir(&directory).unwrap();
        fs::copy(testdata(name).join("timeline.jsonl"), directory.join("timeline.jsonl")).unwrap();
        let without = all(&directory).unwrap();
        let Some(Incoming::Message(Message::Verdict(found))) = without.last() else { panic!("{name}: none") };
        assert_eq!((found.verdict, found.intervals), (told.verdict, told.intervals));
        assert_eq!(
            (found.namespace.as_str(), found.pod.as_str(), found.uid.as_str()),
            ("istio-system", "gw-1", "8d67")
        );
    }
}

/// Exercises a stream that is written and read again, and one with lines that are none in it, so that those are told in
/// their place and the rest is shown.
#[test]
fn streams() {
    let whole = all(&testdata("fleet.jsonl")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stream.jsonl");
    let text: Vec<String> = whole
        .iter()
        .map(|incoming| match incoming {
            Incoming::Message(message) => serde_json::to_string(message).unwrap(),
            other => panic!("{other:?}"),
        })
        .collect();
    fs::write(&path, text.join("\n")).unwrap();
    assert_eq!(all(&path).unwrap(), whole);
    let cut = format!("{}\n\n\u{fffd}not json\n{}\n{{\"type\":\"po", text[0], text[1]);
    fs::write(&path, cut).unwrap();
    let all = all(&path).unwrap();
    let notes = all.iter().filter(|incoming| matches!(incoming, Incoming::Note { .. })).count();
    assert_eq!((all.len(), notes), (4, 2));
    let mut model = Model::default();
    all.into_iter().for_each(|incoming| model.apply(incoming, 0));
    assert_eq!(model.pods().count(), 1);
}

/// Exercises what is no recording, so that each is refused with its name.
#[test]
fn refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.jsonl");
    for text in ["", "\n\n", "{}", "HTTP/1.1 200 OK", "[1]", "\u{0}\u{1}"] {
        fs::write(&path, text).unwrap();
        let error = format!("{:#}", Recorded::open(&path).unwrap_err());
        assert!(error.contains("x.jsonl"), "{text:?}: {error}");
    }
    assert!(
        format!("{:#}", Recorded::open(&directory.path().join("none")).unwrap_err()).contains("cannot open")
    );
    let fact = r#"{"ts":"2026-11-30T17:21:06.863394Z","event":"pod_gone"}"#;
    fs::write(&path, format!("{fact}\nnonsense")).unwrap();
    assert!(format!("{:#}", Recorded::open(&path).unwrap_err()).contains("line 2"));
}
