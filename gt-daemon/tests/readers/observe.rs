//! The observer's loop with pods that are scripted, in the test's own network namespace.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use gt_common::{
    connection::{CutKey, Evidence, HcState, How, Lane, Phase, Protocol},
    counters::{Counters, Losses},
    owner::Slot,
};
use gt_daemon::{
    clock::monotonic_ns,
    correlate::Joins,
    drain::ledger::Ledger,
    lb::reader::Heard,
    observe::{
        Board, Feed, Kernel, Observer, Parts, Settings, Signs,
        board::{HcShown, Shown},
    },
    pods::{
        Container, Deletion, Pod,
        owners::{Followed, Name, Owner, Owners, Published},
    },
    probes::{
        ProbeError,
        decode::{Known, Observed, What},
        events::Next,
    },
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use crate::{
    Case, on_runtime,
    scripted::{Answer, Scripted},
};

pub fn cases() -> Vec<Case> {
    [
        ("observe::a_hung_pod_delays_no_other", a_hung_pod_delays_no_other as fn() -> Result<()>),
        ("observe::an_event_asks_at_once", an_event_asks_at_once),
        ("observe::a_pod_from_first_to_last", a_pod_from_first_to_last),
        ("observe::a_changed_pod_is_read_anew", a_changed_pod_is_read_anew),
        ("observe::the_log_is_read", the_log_is_read),
        ("observe::what_finds_no_room_is_counted", what_finds_no_room_is_counted),
    ]
    .into_iter()
    .map(|(name, run)| Case::new(name, None, run))
    .collect()
}

/// What the kernel programs were told.
#[derive(Debug, Default)]
pub struct Told(Mutex<BTreeMap<Slot, HcState>>);

impl Told {
    pub fn of(&self, slot: Slot) -> Option<HcState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&slot).copied()
    }
}

impl Kernel for Told {
    fn cuts(&self) -> Result<BTreeMap<CutKey, u64>, ProbeError> {
        Ok(BTreeMap::new())
    }

    fn losses(&self) -> Result<Losses, ProbeError> {
        Ok(Losses::default())
    }

    fn counters(&self, _slots: &[Slot]) -> Result<Counters, ProbeError> {
        Ok(Counters::default())
    }

    fn set_hc(&self, pod: Slot, state: HcState) -> Result<(), ProbeError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(pod, state);
        Ok(())
    }
}

/// A running observer.
pub struct Observing {
    owners: Arc<Owners>,
    pub board: Arc<Board>,
    pub ledger: Arc<Ledger>,
    pub told: Arc<Told>,
    pub feed: Feed,
    pub lb_door: mpsc::Sender<Heard>,
    task: JoinHandle<()>,
    /// The observer stops when this is dropped.
    _stop: oneshot::Sender<()>,
}

impl Drop for Observing {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn settings() -> Settings {
    let signs = Signs { hc_container: Some("hc".to_owned()), hc_port: 18_180, ..Signs::default() };
    Settings { signs, patience: Duration::from_secs(60), streams: 4, ..Settings::default() }
}

fn observer(settings: Settings) -> Result<(Observer, Feed, Parts, Arc<Told>)> {
    let told = Arc::new(Told::default());
    let parts = Parts {
        owners: Arc::default(),
        kernel: Arc::clone(&told) as Arc<dyn Kernel>,
        joins: Arc::new(Mutex::new(Joins::new(250))),
        board: Arc::default(),
        ledger: Arc::new(Ledger::new(10)),
        writer: None,
        hz: 250,
    };
    let (observer, feed) = Observer::new(settings, parts.clone())?;
    Ok((observer, feed, parts, told))
}

impl Observing {
    pub fn start() -> Result<Self> {
        Self::start_with(settings())
    }

    pub fn start_with(settings: Settings) -> Result<Self> {
        let (observer, feed, parts, told) = observer(settings)?;
        let lb_door = observer.lb_door();
        let (stop, stopping) = oneshot::channel();
        let task = tokio::spawn(observer.run(stopping));
        Ok(Self {
            owners: parts.owners,
            board: parts.board,
            ledger: parts.ledger,
            told,
            feed,
            lb_door,
            task,
            _stop: stop,
        })
    }

    pub fn publish(&self, pods: &[&Arc<Followed>]) {
        let owner = |followed: &&Arc<Followed>| Owner {
            slot: followed.slot,
            name: Name {
                namespace: followed.pod.namespace.clone(),
                pod: followed.pod.name.clone(),
                container: String::new(),
            },
            uid: followed.uid.to_string(),
            by_namespace: true,
        };
        self.owners.publish(Published {
            owners: pods.iter().map(owner).collect(),
            pods: pods.iter().map(|pod| Arc::clone(pod)).collect(),
            ..Published::default()
        });
    }

    pub fn shown(&self, pod: &str) -> Option<Shown> {
        self.board.pods().into_iter().find(|shown| shown.pod == pod)
    }

    fn hc(&self, pod: &str) -> Option<HcShown> {
        self.shown(pod)?.hc
    }

    /// Waits until something is so.
    pub async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) -> Result<()> {
        let begun = Instant::now();
        while !is_so(self) {
            ensure!(begun.elapsed() < Duration::from_secs(10), "{what}: {:?}", self.board.pods());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

pub fn own_namespace() -> Result<Option<Arc<File>>> {
    Ok(Some(Arc::new(File::open("/proc/self/ns/net")?)))
}

pub fn pod(name: &str, hc: Option<SocketAddr>, envoy: Option<SocketAddr>) -> Pod {
    let port = |address: Option<SocketAddr>| address.map(|address| address.port());
    Pod {
        namespace: "test".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        hc_port: port(hc),
        envoy_port: port(envoy),
        ..Pod::default()
    }
}

pub fn followed(slot: Slot, pod: Pod, netns: Option<Arc<File>>) -> Arc<Followed> {
    let uid = pod.uid.as_str().into();
    Arc::new(Followed { uid, slot, pod: Arc::new(pod), netns, host_network: false, gone: false })
}

pub fn state(state: &str) -> Answer {
    Answer::Body(format!(r#"{{"state":"{state}","since":null,"active":null,"reason":null}}"#))
}

pub fn gauges(downstream: u64, upstream: u64) -> Answer {
    Answer::Body(format!(
        "http.in.downstream_rq_active: {downstream}\ncluster.a.upstream_rq_active: {upstream}\n"
    ))
}

/// Exercises two pods whose hc or Envoy hangs beside one that answers, so that the one is told as if it were alone, and
/// the others as silent.
fn a_hung_pod_delays_no_other() -> Result<()> {
    on_runtime(async {
        let hung = Scripted::start(Answer::Hang).await?;
        let (hc, envoy) = (Scripted::start(state("DRAINING")).await?, Scripted::start(gauges(2, 1)).await?);
        let observing = Observing::start()?;
        let bad = followed(1, pod("bad", Some(hung.address), Some(hung.address)), own_namespace()?);
        let half = followed(2, pod("half", Some(hc.address), Some(hung.address)), own_namespace()?);
        let good = followed(3, pod("good", Some(hc.address), Some(envoy.address)), own_namespace()?);
        let begun = Instant::now();
        observing.publish(&[&bad, &half, &good]);
        let is_told = |observing: &Observing| {
            let active = observing.shown("good").and_then(|shown| shown.envoy);
            let states = ["half", "good"].map(|pod| observing.hc(pod).map(|hc| hc.state));
            active.is_some_and(|envoy| envoy.downstream_rq_active == Some(2))
                && states == [Some(HcState::Draining); 2]
                && observing.told.of(3) == Some(HcState::Draining)
        };
        observing.until("the good one", is_told).await?;
        ensure!(begun.elapsed() < Duration::from_millis(900), "as late as {:?}", begun.elapsed());
        let before = (hc.asked(), envoy.asked());
        tokio::time::sleep(Duration::from_secs(2)).await;
        let after = (hc.asked(), envoy.asked());
        // Two pods ask this hc, each five times a second.
        ensure!(after.0 - before.0 >= 10 && after.1 - before.1 >= 5, "{before:?} then {after:?}");
        observing
            .until("the bad one", |observing| {
                let up =
                    |shown: Shown| (shown.hc.and_then(|hc| hc.up), shown.envoy.and_then(|envoy| envoy.up));
                observing.shown("bad").map(up) == Some((Some(false), Some(false)))
                    && observing.shown("half").map(up) == Some((Some(true), Some(false)))
            })
            .await?;
        let bad = observing.shown("bad").and_then(|shown| shown.envoy);
        ensure!(bad.is_some_and(|envoy| envoy.downstream_rq_active.is_none()), "{bad:?}");
        ensure!(observing.told.of(1).is_none(), "{:?}", observing.told);
        Ok(())
    })
}

/// Exercises a teardown of one pod's connection, so that this pod is asked at once, and no other.
fn an_event_asks_at_once() -> Result<()> {
    on_runtime(async {
        let (one, other) = (Scripted::start(gauges(0, 0)).await?, Scripted::start(gauges(0, 0)).await?);
        let hc = Scripted::start(state("OPEN")).await?;
        let observing = Observing::start()?;
        let pods = [
            followed(1, pod("one", Some(hc.address), Some(one.address)), own_namespace()?),
            followed(2, pod("other", Some(hc.address), Some(other.address)), own_namespace()?),
        ];
        observing.publish(&[&pods[0], &pods[1]]);
        observing.until("both", |_| one.asked() >= 1 && other.asked() >= 1).await?;
        // At the slow pace the next question is seconds away.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let (of_one, of_other) = (one.asked(), other.asked());
        observing.feed.push(Next::Event(teardown(1)));
        let begun = Instant::now();
        observing.until("a question", |_| one.asked() > of_one).await?;
        ensure!(begun.elapsed() < Duration::from_millis(500), "as late as {:?}", begun.elapsed());
        ensure!(other.asked() == of_other, "the other pod was asked, too");
        Ok(())
    })
}

/// A cut of a connection of users.
pub fn teardown(slot: Slot) -> Observed {
    let now = monotonic_ns();
    Observed {
        time_ns: now,
        what: What::Teardown(How::FinReceived),
        slot,
        lane: Lane::Data,
        local: ([10, 0, 0, 1], 8080).into(),
        remote: ([10, 0, 0, 2], 40_000).into(),
        socket: Some(0xffff_8880_0000_1000),
        netns: Some(4_026_532_000),
        first: true,
        connection: Some(Known {
            exiting: false,
            rst_counted: false,
            since_ns: now.saturating_sub(1_000_000_000),
            adopted: false,
            since_read: Some(10),
            protocol: Protocol::Http1,
            how: How::FinReceived,
            phase: Phase::Awaiting,
            evidence: Evidence::Socket,
            hc: HcState::Open,
            received: 100,
            sent: 0,
            unread: 0,
            unsent: 0,
            unacked: 0,
            since_sent: 0,
        }),
    }
}

/// Exercises a pod before its namespace is found, while it runs, when its deletion is asked for, when it is gone and when
/// it is forgotten: it is asked only while there is a way, fast at its end, and its namespace is let go with the
/// tracker's own.
fn a_pod_from_first_to_last() -> Result<()> {
    on_runtime(async {
        let hc = Scripted::start(state("OPEN")).await?;
        let observing = Observing::start()?;
        let begins = followed(1, pod("pod", Some(hc.address), None), None);
        observing.publish(&[&begins]);
        let unknown = HcShown { state: HcState::Unknown, up: None };
        observing.until("the pod", |observing| observing.hc("pod") == Some(unknown)).await?;
        tokio::time::sleep(Duration::from_millis(300)).await;
        ensure!(hc.asked() == 0, "asked before there was a way");

        let netns = own_namespace()?;
        let held: Weak<File> = netns.as_ref().map(Arc::downgrade).unwrap_or_default();
        let runs = Arc::new(Followed { netns, ..(*begins).clone() });
        observing.publish(&[&runs]);
        observing.until("OPEN", |observing| observing.told.of(1) == Some(HcState::Open)).await?;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        ensure!(hc.asked() == 1, "asked {} times at the slow pace", hc.asked());

        let deletion = Some(Deletion { deadline: std::time::SystemTime::now(), grace: Duration::ZERO });
        let ends = Arc::new(Pod { deletion, ..(*runs.pod).clone() });
        let ends = Arc::new(Followed { pod: ends, ..(*runs).clone() });
        drop(runs);
        observing.publish(&[&ends]);
        observing.until("the fast pace", |_| hc.asked() >= 5).await?;
        hc.say(state("CLOSED"));
        observing.until("CLOSED", |observing| observing.told.of(1) == Some(HcState::Closed)).await?;

        let gone = Arc::new(Followed { gone: true, netns: None, ..(*ends).clone() });
        drop(ends);
        observing.publish(&[&gone]);
        observing.until("an open namespace", |_| held.upgrade().is_none()).await?;
        let asked = hc.asked();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let last = HcShown { state: HcState::Closed, up: None };
        ensure!(hc.asked() == asked && observing.hc("pod") == Some(last), "{:?}", observing.hc("pod"));
        observing.publish(&[]);
        observing.until("nothing", |observing| observing.board.pods().is_empty()).await
    })
}

/// Exercises a pod that gets another namespace, and one whose port is changed, so that each is asked where it is now; and
/// one that nothing but its age changes, so that it is left alone.
fn a_changed_pod_is_read_anew() -> Result<()> {
    on_runtime(async {
        let (first, second) =
            (Scripted::start(state("OPEN")).await?, Scripted::start(state("CLOSING")).await?);
        let observing = Observing::start()?;
        let before = followed(1, pod("pod", Some(first.address), None), own_namespace()?);
        observing.publish(&[&before]);
        observing.until("OPEN", |observing| observing.told.of(1) == Some(HcState::Open)).await?;
        let older = Arc::new(Pod { grace: Some(Duration::from_secs(1)), ..(*before.pod).clone() });
        observing.publish(&[&Arc::new(Followed { pod: older, ..(*before).clone() })]);
        tokio::time::sleep(Duration::from_millis(300)).await;
        ensure!(first.asked() == 1, "asked {} times", first.asked());
        let moved = Arc::new(Followed { netns: own_namespace()?, ..(*before).clone() });
        observing.publish(&[&moved]);
        observing.until("a question from there", |_| first.asked() == 2).await?;
        let changed = Arc::new(pod("pod", Some(second.address), None));
        let changed = Arc::new(Followed { pod: changed, ..(*moved).clone() });
        observing.publish(&[&changed]);
        observing.until("CLOSING", |observing| observing.told.of(1) == Some(HcState::Closing)).await?;
        ensure!(first.asked() == 2, "asked {} times", first.asked());
        Ok(())
    })
}

/// Exercises a pod with a container `hc` whose log alone can be read, so that its state is known by that.
fn the_log_is_read() -> Result<()> {
    on_runtime(async {
        let dir = tempfile::tempdir()?;
        fs::create_dir(dir.path().join("hc"))?;
        let line = "2026-11-30T07:16:46.5Z stdout F event=transition from=OPEN to=DRAINING\n";
        fs::write(dir.path().join("hc/0.log"), line)?;
        let observing = Observing::start()?;
        let container = |name: &str| Container { name: name.to_owned(), id: None, cgroup: None };
        let containers = vec![container("app"), container("hc")];
        let logs = Some(dir.path().to_owned());
        let with_hc = followed(1, Pod { containers, logs, ..pod("pod", None, None) }, None);
        let without = followed(2, pod("other", None, None), own_namespace()?);
        observing.publish(&[&with_hc, &without]);
        observing.until("DRAINING", |observing| observing.told.of(1) == Some(HcState::Draining)).await?;
        ensure!(observing.shown("other").is_none(), "{:?}", observing.board.pods());
        Ok(())
    })
}

/// Exercises more events than there is room for, so that the ring's reader is not held up and each loss is counted.
fn what_finds_no_room_is_counted() -> Result<()> {
    let (_observer, feed, parts, _) = observer(settings())?;
    for _ in 0..5_000 {
        feed.push(Next::Event(teardown(1)));
    }
    let lost = parts.board.lost();
    ensure!(lost.contains(&("observe", 5_000 - 4_096)), "{lost:?}");
    Ok(())
}
