//! Many pods that come and go, as a kubelet makes them: each one's counts are its own, and nothing stays behind.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{ChildStdout, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use xtask::sandbox::{Cgroup, Process, cgroup2_root, eventually};

use crate::{
    Case, Skip, child,
    churn::many,
    daemon::{Backend, Daemon},
};

/// Pods that come, and as many that go, in a second: 20, fewer where the machine is emulated.
fn a_second() -> Result<usize> {
    Ok(usize::try_from(many(20, 4))?)
}

/// The daemon is told to keep a pod's series for so long.
const RETAIN: Duration = Duration::from_secs(5);

pub fn cases(backend: Backend, skip: Option<&String>) -> Vec<Case> {
    let skip: Skip = skip.cloned();
    let name = format!("{}::turnover::pods_come_and_go", backend.name());
    vec![Case::new(name, skip, move || turnover(backend))]
}

/// Slots are short: a pod whose slots were not given back would soon keep another from being watched.
fn turnover(backend: Backend) -> Result<()> {
    let (live, seconds) = (usize::try_from(many(250, 40))?, many(60, 10));
    let a_second = a_second()?;
    let node = Node::new()?;
    let slots = (live * 4).to_string();
    let retain = RETAIN.as_secs().to_string();
    let pods = format!("kubelet:{}", node.logs.display());
    let daemon = Daemon::start(&[
        "--pods",
        &pods,
        "--attach",
        backend.name(),
        "--retain",
        &retain,
        "--slots",
        &slots,
    ])?;
    let files = open_files(&daemon)?;

    let mut number = 0..;
    let mut pods: VecDeque<Pod> =
        number.by_ref().take(live).map(|number| node.pod(number)).collect::<Result<_>>()?;
    let mut last = BTreeMap::new();
    let mut made = BTreeMap::new();
    let began = Instant::now();
    let mut second = 0;
    // On a machine that is slow beyond measure fewer pods come; those that do are accounted for.
    let longest = Duration::from_secs(4 * seconds);
    while second < seconds && began.elapsed() < longest || pods.iter().any(|pod| !pod.is_right(&last)) {
        ensure!(
            began.elapsed() < longest + Duration::from_secs(60),
            "{} pods are not accounted for, such as {:?}, which has {:?}\n{}",
            pods.iter().filter(|pod| !pod.is_right(&last)).count(),
            pods.iter().find(|pod| !pod.is_right(&last)).map(|pod| &pod.name),
            pods.iter().find(|pod| !pod.is_right(&last)).and_then(|pod| last.get(&pod.name)),
            daemon.log()
        );
        last = opened(&daemon)?;
        for pod in &mut pods {
            ensure!(pod.is_possible(&last), "pod {} has {:?}", pod.name, last.get(&pod.name));
            // Only what is accounted for can be counted from the first connection.
            if last.contains_key(&pod.name) && !pod.has_talked {
                pod.talk()?;
            }
        }
        // A machine that is too slow for the pace gets fewer: what is wrong with a pod shows all the same.
        let keeps_up = pods.len() <= live + 2 * a_second;
        if second < seconds && began.elapsed() >= Duration::from_secs(second) && keeps_up {
            second += 1;
            for number in number.by_ref().take(a_second) {
                let pod = node.pod(number)?;
                made.insert(pod.name.clone(), pod.made);
                pods.push_back(pod);
            }
            while pods.len() > live && pods.front().is_some_and(|pod| pod.is_right(&last)) {
                drop(pods.pop_front());
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
    println!("{} pods came in {} s", made.len(), began.elapsed().as_secs());
    tell_delays(&daemon.log(), &made)?;
    // Those that have gone too: what the last scrape still shows of them is theirs.
    for (name, count) in &last {
        let number: usize = name.trim_start_matches("pod-").parse()?;
        ensure!(*count == talks(number) * 2, "{name} has {count}, and had {} talks", talks(number));
    }

    drop(pods);
    eventually("all series to go", RETAIN + Duration::from_secs(20), || {
        opened(&daemon).is_ok_and(|opened| opened.is_empty()).then_some(())
    })?;
    let metrics = daemon.metrics()?;
    for state in ["watched", "unattributed", "refused", "gone"] {
        let pods = metrics.sum("gt_pods", &[("state", state)]);
        ensure!(pods == Some(0), "{pods:?} pods are {state}\n{}", daemon.log());
    }
    ensure!(!daemon.log().contains("slots"), "slots ran out:\n{}", daemon.log());
    eventually("the daemon's files to be closed", RETAIN + Duration::from_secs(20), || {
        open_files(&daemon).is_ok_and(|now| now <= files + 8).then_some(())
    })
    .with_context(|| format!("{files} files were open before, and now {:?}", open_files(&daemon)))
}

/// Tells how long pods waited until the kernel was told of their namespaces, by the daemon's log. For people: it depends
/// on the machine.
fn tell_delays(log: &str, made: &BTreeMap<String, Timestamp>) -> Result<()> {
    let mut delays = Vec::new();
    for line in log.lines() {
        let Some((time, rest)) = line.split_once(' ') else { continue };
        let Some((_, rest)) = rest.split_once("network namespace found pod=\"") else { continue };
        let pod = rest.split('"').next().unwrap_or_default();
        if let Some(made) = made.get(pod) {
            delays.push(time.parse::<Timestamp>()?.duration_since(*made).as_millis());
        }
    }
    ensure!(delays.len() == made.len(), "{} of {} pods stand in the log", delays.len(), made.len());
    delays.sort_unstable();
    let at = |part| delays.get(delays.len().saturating_sub(1) * part / 100).copied().unwrap_or_default();
    println!("accounted for after {} ms (median), {} ms (99 %), {} ms (slowest)", at(50), at(99), at(100));
    Ok(())
}

/// Files that the daemon holds open, network namespaces among them.
fn open_files(daemon: &Daemon) -> Result<usize> {
    Ok(fs::read_dir(format!("/proc/{}/fd", daemon.id()))?.count())
}

/// Connections opened, by pod.
fn opened(daemon: &Daemon) -> Result<BTreeMap<String, u64>> {
    Ok(daemon.metrics()?.by("pod", "gt_connections_opened_total"))
}

/// How many connections a pod makes: neighbours differ.
fn talks(number: usize) -> u64 {
    1 + number as u64 % 7
}

/// Log directories and cgroups as a kubelet makes them.
struct Node {
    logs: PathBuf,
    cgroups: PathBuf,
    _directory: tempfile::TempDir,
}

impl Node {
    fn new() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let logs = directory.path().join("pods");
        fs::create_dir(&logs)?;
        Ok(Self { logs, cgroups: cgroup2_root()?, _directory: directory })
    }

    fn pod(&self, number: usize) -> Result<Pod> {
        Pod::create(&self.logs, &self.cgroups, number)
    }
}

/// A pod: a process in a cgroup and a network namespace of its own. Dropped, it is gone as a kubelet leaves it.
struct Pod {
    name: String,
    number: usize,
    /// When its process had been started.
    made: Timestamp,
    has_talked: bool,
    log: PathBuf,
    process: Process,
    said: BufReader<ChildStdout>,
    // After the process: a cgroup that is empty goes at once.
    _cgroup: Cgroup,
}

impl Pod {
    fn create(logs: &Path, cgroups: &Path, number: usize) -> Result<Self> {
        let name = format!("pod-{number}");
        let uid = format!("00000000-0000-4000-8000-{number:012x}");
        let log = logs.join(format!("turnover_{name}_{uid}"));
        fs::create_dir_all(log.join("hc"))?;
        let relative = format!("kubepods/burstable/pod{uid}/{number:064x}");
        let cgroup = Cgroup::create(cgroups, &relative)?;
        let mut command = child::pod(&cgroup)?;
        let mut process = Process::start("pod", command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let said = process.child().stdout.take().context("the pod has no output")?;
        Ok(Self {
            name,
            number,
            made: Timestamp::now(),
            has_talked: false,
            log,
            process,
            said: BufReader::new(said),
            _cgroup: cgroup,
        })
    }

    /// Makes its connections, both ends in the pod.
    fn talk(&mut self) -> Result<()> {
        let stdin = self.process.child().stdin.as_mut().context("the pod has no input")?;
        writeln!(stdin, "{}", talks(self.number))?;
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        ensure!(line.trim() == "done", "{} said {line:?}", self.name);
        self.has_talked = true;
        Ok(())
    }

    /// Whether it is accounted for, to the connection.
    fn is_right(&self, counts: &BTreeMap<String, u64>) -> bool {
        self.has_talked && counts.get(&self.name) == Some(&(talks(self.number) * 2))
    }

    /// Whether a count may be this pod's: none yet, or just its own.
    fn is_possible(&self, counts: &BTreeMap<String, u64>) -> bool {
        counts.get(&self.name).is_none_or(|count| {
            let most = if self.has_talked { talks(self.number) * 2 } else { 0 };
            *count <= most
        })
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.log) {
            eprintln!("left behind: {}: {error}", self.log.display());
        }
    }
}
