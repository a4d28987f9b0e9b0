//! Whose socket is it where things are odd: namespaces inside a pod, pods that return, names that live on, too little
//! room.

use std::{
    collections::BTreeMap,
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use xtask::sandbox::{Cgroup, Netns, Process, cgroup2_root, eventually};

use crate::{
    Case, Skip,
    conversation::accept,
    daemon::{Backend, Daemon, Shared},
};

pub fn cases(backend: Backend, skip: Option<&String>) -> Vec<Case> {
    let skip: Skip = skip.cloned();
    let name = |test: &str| format!("{}::mixups::{test}", backend.name());
    vec![
        Case::new(name("a_namespace_inside_the_pod"), skip.clone(), move || inside(backend)),
        Case::new(name("a_pod_that_returns"), skip.clone(), move || returns(backend)),
        Case::new(name("a_name_that_lives_on"), skip.clone(), move || lives_on(backend)),
        Case::new(name("sockets_in_another_namespace"), skip.clone(), move || elsewhere(backend)),
        Case::new(name("no_room_for_cgroups"), skip.clone(), move || no_room(backend)),
        Case::new(name("no_room_for_ports"), skip.clone(), move || no_ports(backend)),
        Case::new(name("no_slot_for_an_odd_uid"), skip, move || no_slot(backend)),
    ]
}

fn netns(name: &str) -> Result<Netns> {
    Netns::create(&format!("gt-test-{}-{name}", std::process::id()))
}

/// A process that is in a cgroup from its start, and in a namespace.
fn sleeper(cgroup: &Cgroup, netns: &Netns) -> Result<Process> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""]).arg(cgroup.path());
    command.args(["ip", "netns", "exec", netns.name(), "sleep", "60"]);
    let process = Process::start("sleeper", &mut command)?;
    let path = format!("/proc/{}/ns/net", process.id());
    let wanted = fs::metadata(netns.path())?;
    eventually("the process to be in its namespace", Duration::from_secs(5), || {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(&path).is_ok_and(|now| now.ino() == wanted.ino()).then_some(())
    })?;
    Ok(process)
}

/// Makes so many connections to a port nobody listens on, inside a namespace.
fn refuse(netns: &Netns, times: u32) -> Result<()> {
    netns.enter(|| -> Result<()> {
        let target = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        for _ in 0..times {
            ensure!(TcpStream::connect(target).is_err(), "nobody listens");
        }
        Ok(())
    })?
}

fn found(daemon: &Daemon, pod: &str) -> usize {
    daemon.log().matches(&format!("network namespace found pod=\"{pod}\"")).count()
}

/// A process of the pod makes a namespace of its own, as a builder, a browser or a debugger does, and comes first in
/// the pod's cgroups: the pod's namespace stays the one where its other processes are.
fn inside(backend: Backend) -> Result<()> {
    let shared = Shared::of(backend)?;
    let root = cgroup2_root()?;
    let pod = Cgroup::create(&root, "gt-test/inside")?;
    let pause = Cgroup::create(&root, "gt-test/inside/pause")?;
    let (own, made) = (netns("inside-own")?, netns("inside-made")?);
    let _pause = sleeper(&pause, &own)?;
    let watch = shared.watch_unattributed("inside", "cgroup = \"gt-test/inside\"")?;
    eventually("the pod's namespace", Duration::from_secs(10), || {
        (found(&shared.daemon, "inside") == 1).then_some(())
    })?;
    let _builder = sleeper(&pod, &made)?;
    // Its processes are looked at again, since its cgroups are others.
    let _change = Cgroup::create(&root, "gt-test/inside/change")?;
    thread::sleep(Duration::from_millis(1500));
    refuse(&made, 1)?;
    refuse(&own, 2)?;
    watch.expect("gt_rst_total", &[("reason", "refused")], 2)?;
    ensure!(found(&shared.daemon, "inside") == 1, "another namespace is taken for the pod's");
    Ok(())
}

/// A daemon with a pods file of its own, which holds one pod.
struct Alone {
    daemon: Daemon,
    file: std::path::PathBuf,
    _directory: tempfile::TempDir,
}

impl Alone {
    fn start(backend: Backend, arguments: &[&str]) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("pods.toml");
        fs::write(&file, "")?;
        let pods = format!("static:{}", file.display());
        let mut all = vec!["--pods", &pods, "--attach", backend.name()];
        all.extend_from_slice(arguments);
        Ok(Self { daemon: Daemon::start(&all)?, file, _directory: directory })
    }

    fn write(&self, pods: &str) -> Result<()> {
        let next = self.file.with_extension("next");
        fs::write(&next, pods)?;
        fs::rename(&next, &self.file).map_err(Into::into)
    }

    /// Makes a pod of this UID, in this place, the only one.
    fn only(&self, uid: &str, place: &str) -> Result<()> {
        self.write(&format!("[[pod]]\nnamespace = \"test\"\nname = \"pod\"\nuid = \"{uid}\"\n{place}\n"))
    }

    fn opened(&self) -> Result<Option<u64>> {
        Ok(self.daemon.metrics()?.sum("gt_connections_opened_total", &[("pod", "pod")]))
    }
}

/// A UID is replaced, and the change is taken back before the first one is forgotten: it has its namespace again.
fn returns(backend: Backend) -> Result<()> {
    let alone = Alone::start(backend, &["--retain", "2"])?;
    let netns = netns("returns")?;
    let place = format!("netns = \"{}\"", netns.path().display());
    for (round, uid) in ["one", "two", "one"].into_iter().enumerate() {
        alone.only(uid, &place)?;
        eventually("the pod to be seen", Duration::from_secs(10), || {
            let metrics = alone.daemon.metrics().ok()?;
            let counts = ["watched", "gone"].map(|state| metrics.sum("gt_pods", &[("state", state)]));
            (counts == [Some(1), Some(u64::from(round > 0))]).then_some(())
        })?;
        thread::sleep(Duration::from_millis(600));
    }
    // Until the other one is forgotten.
    eventually("the other to be forgotten", Duration::from_secs(10), || {
        alone.daemon.log().contains("pod forgotten").then_some(())
    })?;
    refuse(&netns, 3)?;
    eventually("the refused", Duration::from_secs(5), || {
        let metrics = alone.daemon.metrics().ok()?;
        (metrics.sum("gt_rst_total", &[("pod", "pod"), ("reason", "refused")]) == Some(3)).then_some(())
    })
    .with_context(|| alone.daemon.log())
}

/// Pods of the same names follow one another, each forgotten at once: the sum under a name never falls, not in a
/// single scrape.
fn lives_on(backend: Backend) -> Result<()> {
    let alone = Alone::start(backend, &["--retain", "0"])?;
    let namespaces: Vec<_> = (0..24).map(|pod| netns(&format!("lives-{pod}"))).collect::<Result<_>>()?;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Several at once, so that one of them is under way whenever a pod is forgotten.
        let scrapers: Vec<_> = (0..4).map(|_| scope.spawn(|| never_falls(&alone.daemon, &over))).collect();
        let made = namesakes(&alone, &namespaces);
        over.store(true, Ordering::Relaxed);
        for scraper in scrapers {
            let seen = scraper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            ensure!(seen.len() == namespaces.len(), "only {} pods were seen", seen.len());
        }
        made
    })
}

/// Eight generations of pods of the same names, each with a connection in every namespace.
fn namesakes(alone: &Alone, namespaces: &[Netns]) -> Result<()> {
    for round in 0..8 {
        let pod = |(pod, netns): (usize, &Netns)| {
            let place = netns.path();
            format!(
                "[[pod]]\nnamespace = \"test\"\nname = \"pod-{pod}\"\nuid = \"{round}-{pod}\"\nnetns = {place:?}\n"
            )
        };
        alone.write(&namespaces.iter().enumerate().map(pod).collect::<String>())?;
        let last = format!("uid=\"{round}-{}\"", namespaces.len() - 1);
        eventually("the pods to be seen", Duration::from_secs(20), || {
            alone.daemon.log().contains(&last).then_some(())
        })?;
        thread::sleep(Duration::from_millis(300));
        for netns in namespaces {
            netns.enter(|| -> Result<()> {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                let client = TcpStream::connect(listener.local_addr()?)?;
                drop((accept(&listener)?, client));
                Ok(())
            })??;
        }
    }
    Ok(())
}

/// Scrapes until it is over; the sums by pod.
fn never_falls(daemon: &Daemon, over: &AtomicBool) -> Result<BTreeMap<String, u64>> {
    let mut most = BTreeMap::new();
    while !over.load(Ordering::Relaxed) {
        for (pod, sum) in daemon.metrics()?.by("pod", "gt_connections_opened_total") {
            let known = most.entry(pod.clone()).or_insert(sum);
            ensure!(sum >= *known, "the sum of {pod} fell from {known} to {sum}");
            *known = sum;
        }
    }
    Ok(most)
}

/// The tree of v2 alone: there sockets are known by their cgroups, also on a host that has v1 beside it.
fn unified() -> Result<String> {
    Ok(cgroup2_root()?.display().to_string())
}

/// A pod has a connection in a namespace that is not its own, nor the host's: when connections are taken in, it is not
/// taken for one that ended unseen.
fn elsewhere(backend: Backend) -> Result<()> {
    let shared = Arc::new(Shared::start(backend, &["--cgroup-root", &unified()?])?);
    let root = cgroup2_root()?;
    let netns = netns("elsewhere")?;
    let _first = shared.watch("elsewhere-first", &format!("netns = \"{}\"", netns.path().display()))?;
    let cgroup = Cgroup::create(&root, "gt-test/elsewhere")?;
    let watch = shared.watch("elsewhere", "cgroup = \"gt-test/elsewhere\"")?;
    let (variable, value) = crate::child::listen("127.0.0.1:7001");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""]).arg(cgroup.path());
    command.args(["ip", "netns", "exec", netns.name()]).arg(std::env::current_exe()?).env(variable, value);
    let _server = Process::start("server", &mut command)?;
    let target: SocketAddr = "127.0.0.1:7001".parse()?;
    let _client = eventually("the server", Duration::from_secs(10), || {
        netns.enter(|| TcpStream::connect(target)).ok()?.ok()
    })?;
    watch.expect("gt_connections_opened_total", &[], 1)?;
    thread::sleep(Duration::from_millis(200));
    let _change = Cgroup::create(&root, "gt-test/elsewhere/change")?;
    thread::sleep(Duration::from_millis(1500));
    watch.expect("gt_connections_closed_total", &[], 0)
}

/// A pod has more cgroups than there is room for: it is told, once, and the others are found all the same.
fn no_room(backend: Backend) -> Result<()> {
    let shared = Arc::new(Shared::start(backend, &["--cgroup-root", &unified()?, "--slots", "4"])?);
    let root = cgroup2_root()?;
    let _many: Vec<_> = (0..20)
        .map(|number| Cgroup::create(&root, &format!("gt-test/no-room/{number}")))
        .collect::<Result<_>>()?;
    let _greedy = shared.watch("no-room-greedy", "cgroup = \"gt-test/no-room\"")?;
    let netns = netns("no-room")?;
    let cgroup = Cgroup::create(&root, "gt-test/no-room-other")?;
    let _process = sleeper(&cgroup, &netns)?;
    let other = shared.watch("no-room-other", "cgroup = \"gt-test/no-room-other\"")?;
    refuse(&netns, 2)?;
    other.expect("gt_rst_total", &[("reason", "refused")], 2)?;
    let log = shared.daemon.log();
    ensure!(log.matches("not all of its cgroups are told apart").count() == 2, "told not once:\n{log}");
    Ok(())
}

/// A pod with more ports than there is room for leaves nothing behind that keeps another from being watched, and is
/// told once.
fn no_ports(backend: Backend) -> Result<()> {
    let alone = Alone::start(backend, &["--slots", "4"])?;
    let netns = netns("no-ports")?;
    let ports = |count: u16| {
        let ports: Vec<_> = (1..=count).map(|port| port.to_string()).collect();
        format!("netns = \"{}\"\nhealth_ports = [{}]", netns.path().display(), ports.join(", "))
    };
    alone.only("many", &ports(100))?;
    eventually("the pod to be told", Duration::from_secs(10), || {
        alone.daemon.log().contains("not fully watched").then_some(())
    })?;
    thread::sleep(Duration::from_millis(1600));
    let told = alone.daemon.log().matches("not fully watched").count();
    ensure!(told == 1, "told {told} times");
    alone.only("few", &ports(10))?;
    eventually("the pod's series", Duration::from_secs(10), || alone.opened().ok()?)
        .map(drop)
        .with_context(|| alone.daemon.log())
}

/// Pods whose UIDs look like paths find no slot: each is told once and counted.
fn no_slot(backend: Backend) -> Result<()> {
    let alone = Alone::start(backend, &["--slots", "2"])?;
    let pod = |uid: &str| {
        format!("[[pod]]\nnamespace = \"test\"\nname = \"pod\"\nuid = \"{uid}\"\nnetns = \"/run/nothing\"\n")
    };
    alone.write(&["first", "../second", "third/3"].map(pod).concat())?;
    thread::sleep(Duration::from_millis(2500));
    let refused = alone.daemon.metrics()?.sum("gt_pods", &[("state", "refused")]);
    ensure!(refused == Some(2), "{refused:?} pods are refused");
    let log = alone.daemon.log();
    ensure!(log.matches("all slots are taken").count() == 2, "told not once:\n{log}");
    Ok(())
}
