//! Drains of pods from first to last, by the whole daemon: the verdict in metrics, log and files.

use std::{
    fs,
    path::{Path, PathBuf},
    slice,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, ensure};
use gt_daemon::drain::{
    fact::{Fact, Timed},
    record::Record,
    store::Store,
};
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use xtask::sandbox::eventually;

use crate::{
    Case,
    conversations::pair::Pair,
    daemon::{Backend, Shared},
    inside::{HC, Says, say, serve, state},
    scene::{Family, Scene},
};

pub fn cases(backend: Backend, skip: Option<&String>) -> Vec<Case> {
    let name = format!("{}::drains::verdicts", backend.name());
    vec![Case::new(name, skip.cloned(), move || verdicts(backend))]
}

/// Needs root and no daemon.
pub fn disk(skip: Option<&String>) -> Case {
    Case::new("drains::a_full_disk", skip.cloned(), a_full_disk)
}

/// A pod with a scripted sidecar, and one connection of a user to it.
pub struct Gateway {
    pub scene: Scene,
    pub hc: Says,
}

impl Gateway {
    pub fn start(daemon: &Arc<Shared>) -> Result<Self> {
        let scene = Scene::with(daemon, Family::V4, &format!("hc_port = {HC}"))?;
        for verdict in ["protected", "broken", "inconclusive"] {
            scene.watched.expect("gt_drains_total", &[("verdict", verdict)], 0)?;
        }
        let hc = Says::default();
        let gateway = Self { scene, hc };
        say(&gateway.hc, state("OPEN"));
        serve(&gateway.scene.pod, HC, &gateway.hc)?;
        gateway.is_seen("OPEN")?;
        ensure!(gateway.scene.watched.find("gt_drain_started_timestamp_seconds", &[])?.is_none());
        Ok(gateway)
    }

    pub fn is_seen(&self, name: &str) -> Result<()> {
        let watched = &self.scene.watched;
        // A call that was slow is not made again before twenty times as long: on an emulated machine that is half a minute.
        eventually("the state", Duration::from_secs(150), || {
            (watched.count("gt_hc_state", &[("state", name)]).ok()? == 1).then_some(())
        })
        .with_context(|| watched.daemon().log())
    }
}

/// Several come to a state together: an emulated machine is slow to see it.
pub fn reach(gateways: &[Gateway], name: &str) -> Result<()> {
    gateways.iter().for_each(|gateway| say(&gateway.hc, state(name)));
    gateways.iter().try_for_each(|gateway| gateway.is_seen(name))
}

/// What a user's connection does before the LB ends it.
type Talk = fn(&mut Pair<'_>) -> Result<()>;

/// The head of a record that holds a ClientHello.
const HELLO: &[u8] = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03 and so on";

/// Exercises three pods whose LB ends a connection after the sidecar's 503: one that is idle, one that waits for its answer, and
/// one of which nobody can tell. So each drain has its verdict, with reasons, when the pod is gone.
fn verdicts(backend: Backend) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let records = dir.path().join("records");
    let record = records.to_str().context("the directory's name is no text")?;
    let daemon = Arc::new(Shared::start(backend, &["--record", record, "--retain", "600"])?);
    let rows: [(&str, Talk, &str); 3] = [
        (
            "protected",
            |pair| pair.request().and_then(|()| pair.answer()),
            "nothing was cut: 1 connection ended",
        ),
        ("broken", |pair| pair.request(), "the load balancer cut 1 request, the first "),
        ("inconclusive", |pair| pair.ask(HELLO), "of 1 connection that ended it cannot be told"),
    ];
    let names = drain(&daemon, &rows.map(|(_, talk, _)| talk))?;
    for (name, (verdict, _, reason)) in names.into_iter().zip(rows) {
        let labels = [("pod", name.as_str()), ("verdict", verdict)];
        eventually("the verdict", Duration::from_secs(120), || {
            (daemon.daemon.metrics().ok()?.sum("gt_drains_total", &labels)? == 1).then_some(())
        })
        .with_context(|| format!("{name} is not {verdict}:\n{}", daemon.daemon.log()))?;
        let sum = daemon.daemon.metrics()?.sum("gt_drains_total", &[("pod", &name)]);
        ensure!(sum == Some(1), "{name} has {sum:?} verdicts");
        let told = daemon.daemon.log();
        let line = told.lines().find(|line| line.contains("drain over") && line.contains(&name));
        ensure!(line.is_some_and(|line| line.contains(verdict) && line.contains(reason)), "{line:?}");
        let place = eventually("the record", Duration::from_secs(5), || written(&records, &name))?;
        check(&place, verdict, reason).with_context(|| place.display().to_string())?;
    }
    ensure!(fs::read_dir(&records)?.count() == 3, "something else is in {record}");
    stopped(&daemon, &records)
}

/// A daemon that is told to stop while a pod drains leaves a record that does not overclaim.
fn stopped(daemon: &Arc<Shared>, records: &Path) -> Result<()> {
    let gateway = Gateway::start(daemon)?;
    reach(slice::from_ref(&gateway), "DRAINING")?;
    let daemon = i32::try_from(daemon.daemon.id())?;
    kill(Pid::from_raw(daemon), Signal::SIGTERM)?;
    let name = &gateway.scene.watched.name;
    let place = eventually("the record", Duration::from_secs(20), || written(records, name))?;
    let summary: serde_json::Value = serde_json::from_slice(&fs::read(place.join("intervals.json"))?)?;
    ensure!(summary["verdict"] == "inconclusive" && summary["ended"].is_null(), "{summary}");
    let reasons = summary["reasons"].to_string();
    ensure!(reasons.contains("the drain has not ended"), "{summary}");
    Ok(())
}

/// One drain for each talk, up to the pods' being gone. Returns their names.
fn drain(daemon: &Arc<Shared>, talks: &[Talk]) -> Result<Vec<String>> {
    let gateways = talks.iter().map(|_| Gateway::start(daemon)).collect::<Result<Vec<_>>>()?;
    let mut pairs = Vec::new();
    for (gateway, talk) in gateways.iter().zip(talks) {
        let mut pair = Pair::inbound(&gateway.scene)?;
        talk(&mut pair)?;
        pairs.push(pair);
    }
    reach(&gateways, "DRAINING")?;
    for gateway in &gateways {
        let started = eventually("the beginning", Duration::from_secs(20), || {
            gateway.scene.watched.find("gt_drain_started_timestamp_seconds", &[]).ok()?
        })?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        ensure!((now - 200..=now).contains(&started), "{started} at {now}");
    }
    reach(&gateways, "CLOSING")?;
    for pair in pairs {
        drop(pair.peer_close()?);
    }
    reach(&gateways, "CLOSED")?;
    let names = gateways.iter().map(|gateway| gateway.scene.watched.name.clone()).collect();
    // Out of the file; the namespaces go after that.
    let namespaces: Vec<_> =
        gateways.into_iter().map(|Gateway { scene: Scene { pod, peer, .. }, .. }| (pod, peer)).collect();
    eventually("the pods to be gone", Duration::from_secs(10), || {
        (daemon.daemon.metrics().ok()?.sum("gt_pods", &[("state", "watched")])? == 0).then_some(())
    })?;
    drop(namespaces);
    Ok(names)
}

fn written(records: &Path, pod: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(records).ok()?;
    entries.filter_map(|entry| Some(entry.ok()?.path())).find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().contains(&format!("_test_{pod}_")))
    })
}

fn check(place: &Path, verdict: &str, reason: &str) -> Result<()> {
    let summary: serde_json::Value = serde_json::from_slice(&fs::read(place.join("intervals.json"))?)?;
    ensure!(summary["verdict"] == verdict, "{summary}");
    ensure!(summary["reasons"][0].as_str().is_some_and(|told| told.contains(reason)), "{summary}");
    ensure!(
        summary["evidence"]["ends"] == 1 && summary["gaps"].as_array().is_some_and(Vec::is_empty),
        "{summary}"
    );
    let lines = fs::read_to_string(place.join("timeline.jsonl"))?;
    let facts: Vec<Timed> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    ensure!(facts.is_sorted(), "{lines}");
    let kinds: [fn(&Fact) -> bool; 5] = [
        |fact| matches!(fact, Fact::HcState { lb_told: Some(503), .. }),
        |fact| matches!(fact, Fact::TcpTeardown(_)),
        |fact| matches!(fact, Fact::Connections { active: 1, .. }),
        |fact| *fact == Fact::PodGone,
        |fact| *fact == Fact::Ended,
    ];
    for is_kind in kinds {
        ensure!(facts.iter().any(|timed| is_kind(&timed.fact)), "{lines}");
    }
    Ok(())
}

/// A small file system, until dropped.
struct Small(tempfile::TempDir);

impl Drop for Small {
    fn drop(&mut self) {
        let _the_test_tells_itself = umount2(self.0.path(), MntFlags::MNT_DETACH);
    }
}

/// Exercises a disk that fills up and one that may only be read, so that each is an error with its remedy and leaves no half
/// record, and room that is made is used.
fn a_full_disk() -> Result<()> {
    let small = Small(tempfile::tempdir()?);
    let dir = small.0.path();
    mount(Some("none"), dir, Some("tmpfs"), MsFlags::empty(), Some("size=64k"))?;
    let store = Store::open(dir.to_owned(), 5)?;
    let deleted = |ts| Timed { ts, fact: Fact::PodDeleted { grace_seconds: 30 } };
    let record =
        |facts: i64| Record::of("ns", "pod", "u", (0..facts).map(deleted).collect(), 0).context("no drain");
    let refused = |remedy: &str| -> Result<()> {
        let Err(error) = store.write(&record(2_000)?) else { anyhow::bail!("written") };
        let told = error.to_string();
        ensure!(told.contains(remedy) && told.contains(&dir.display().to_string()), "{told}");
        ensure!(fs::read_dir(dir)?.count() == 0, "half a record is left");
        Ok(())
    };
    refused("make room")?;
    let place = store.write(&record(3)?)?;
    ensure!(place.join("intervals.json").exists());
    fs::remove_dir_all(place)?;
    mount(None::<&str>, dir, None::<&str>, MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY, None::<&str>)?;
    refused("let gt write there")?;
    let told = Store::open(dir.to_owned(), 5).err().context("opened")?.to_string();
    ensure!(told.contains("--record"), "{told}");
    Ok(())
}
