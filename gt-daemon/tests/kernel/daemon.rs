//! Daemons under test: one per backend for all tests that only read its metrics.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::Signal;
use xtask::sandbox::{Process, eventually};

/// The backends a daemon can be told to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backend {
    Kprobe,
    Btf,
}

impl Backend {
    pub const ALL: [Self; 2] = [Self::Kprobe, Self::Btf];

    pub fn name(self) -> &'static str {
        match self {
            Self::Kprobe => "kprobe",
            Self::Btf => "btf",
        }
    }

    /// Why this kernel has no such backend, by the daemon's own word.
    pub fn unavailable(self) -> Option<String> {
        static ANSWERS: Mutex<BTreeMap<Backend, Option<String>>> = Mutex::new(BTreeMap::new());
        let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
        answers.entry(self).or_insert_with(|| obstacles(self)).clone()
    }

    /// Whether RSTs without a full socket are seen by this backend here.
    pub fn sees_no_socket(self) -> bool {
        let Ok(report) = doctor(self) else { return false };
        !report["unseen"]
            .as_array()
            .is_some_and(|unseen| unseen.iter().any(|line| line.to_string().contains("TIME_WAIT")))
    }
}

/// Where the daemon's binary is: given by whoever runs the tests, else the one cargo built.
pub fn binary() -> PathBuf {
    std::env::var_os("GT_DAEMON").map_or_else(|| env!("CARGO_BIN_EXE_gt-daemon").into(), PathBuf::from)
}

/// Why this process cannot test a kernel at all.
pub fn unfit() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("kernel tests need root".to_owned());
    }
    ["ip", "tcpdump"]
        .into_iter()
        .find(|program| {
            Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err()
        })
        .map(|program| format!("{program} is not installed"))
}

/// `gt-daemon doctor --json`.
pub fn doctor(backend: Backend) -> Result<serde_json::Value> {
    let output = Command::new(binary()).args(["doctor", "--json", "--attach", backend.name()]).output()?;
    serde_json::from_slice(&output.stdout).context("doctor --json printed no JSON")
}

/// Whether this kernel lets programs look at what is read, and so tell what is spoken; by the daemon's own word.
pub fn recognizes() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let report = doctor(Backend::Btf).unwrap_or_default();
        let unseen = report["unseen"].as_array().into_iter().flatten();
        !unseen.filter_map(serde_json::Value::as_str).any(|unseen| unseen.starts_with("what is spoken"))
    })
}

/// Why a test of recognition cannot run here.
pub fn unrecognized() -> Option<String> {
    (!recognizes()).then(|| {
        "programs cannot look at system calls (they can since 5.15), so no protocol is recognized".to_owned()
    })
}

fn obstacles(backend: Backend) -> Option<String> {
    let report = match doctor(backend) {
        Ok(report) => report,
        Err(error) => return Some(format!("{error:#}")),
    };
    let obstacles = report["obstacles"].as_array()?;
    let obstacle = obstacles.first()?.as_str()?;
    Some(obstacle.to_owned())
}

/// The daemon's socket, in its directory.
const SOCKET: &str = "gt.sock";

/// Arguments of a daemon that takes no place where another one may be.
pub fn run(pods: &str) -> [&str; 9] {
    ["run", "--listen", "127.0.0.1:0", "--local", "off", "--socket", "", "--pods", pods]
}

/// A running daemon.
pub struct Daemon {
    process: Process,
    pub address: SocketAddr,
    log: PathBuf,
    directory: tempfile::TempDir,
}

impl Daemon {
    /// Starts a daemon with these arguments and waits until it is ready.
    pub fn start(arguments: &[&str]) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let log = directory.path().join("log");
        let address = free_address()?;
        let mut command = Command::new(binary());
        command
            .arg("run")
            .args(["--listen", &address.to_string(), "--log", "debug", "--local", "off", "--socket"])
            .arg(directory.path().join(SOCKET))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log)?);
        let process = Process::start("gt-daemon", &mut command)?;
        let mut daemon = Self { process, address, log, directory };
        let ready = eventually("the daemon to be ready", Duration::from_secs(60), || {
            if let Ok(Some(status)) = daemon.process.child().try_wait() {
                return Some(Err(anyhow::anyhow!("the daemon ended with {status}")));
            }
            get(daemon.address, "/readyz").is_ok_and(|(status, _)| status == 200).then_some(Ok(()))
        });
        ready.and_then(|result| result).with_context(|| format!("daemon's log:\n{}", daemon.log()))?;
        Ok(daemon)
    }

    /// Where consoles reach it.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join(SOCKET)
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// What the daemon wrote so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Scrapes `/metrics`: the text.
    pub fn exposition(&self) -> Result<String> {
        let (status, body) = get(self.address, "/metrics")?;
        ensure!(status == 200, "GET /metrics answered {status}: {body}");
        crate::families::agree(&body).map(|_| body)
    }

    /// The same, read.
    pub fn metrics(&self) -> Result<Metrics> {
        Metrics::parse(&self.exposition()?)
    }

    /// Ends the daemon as the kernel does when memory is short.
    pub fn kill(&mut self) -> Result<()> {
        self.process.signal(Signal::SIGKILL)?;
        self.process.wait(Duration::from_secs(10))?.context("the daemon survives SIGKILL").map(drop)
    }

    /// Ends the daemon as Kubernetes does and tells how long that took.
    pub fn terminate(&mut self) -> Result<Duration> {
        let start = std::time::Instant::now();
        self.process.signal(Signal::SIGTERM)?;
        let status =
            self.process.wait(Duration::from_secs(10))?.context("the daemon does not end on SIGTERM")?;
        ensure!(status.success(), "the daemon ended with {status}:\n{}", self.log());
        Ok(start.elapsed())
    }
}

/// One scrape: the series by name and labels as written.
#[derive(Debug)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    pub fn parse(text: &str) -> Result<Self> {
        let mut series = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (key, value) = line.rsplit_once(' ').with_context(|| format!("no value in {line:?}"))?;
            let twice = series.insert(key.to_owned(), value.parse()?);
            ensure!(twice.is_none(), "series {key} stands twice in one scrape");
        }
        ensure!(text.ends_with("# EOF\n"), "the exposition does not end with # EOF");
        Ok(Self(series))
    }

    /// The sum of a metric's series that carry all these labels; `None` when there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<u64> {
        let wanted: Vec<_> = labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
        let mut found = None;
        for (key, value) in &self.0 {
            let Some(rest) = key.strip_prefix(name).and_then(|rest| rest.strip_prefix('{')) else { continue };
            let rest = rest.trim_end_matches('}');
            if wanted.iter().all(|label| rest.split(',').any(|part| part == label)) {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "counts are whole"
                )]
                let value = *value as u64;
                found = Some(found.unwrap_or(0) + value);
            }
        }
        found
    }
}

impl Metrics {
    /// A metric's sums by the values of a label.
    pub fn by(&self, label: &str, name: &str) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (key, value) in &self.0 {
            let Some(rest) = key.strip_prefix(name).and_then(|rest| rest.strip_prefix('{')) else { continue };
            let series =
                Series { name, labels: rest.trim_end_matches('}').split(',').collect(), value: *value };
            *sums.entry(series.label(label).to_owned()).or_default() += series.count();
        }
        sums
    }

    /// All series that carry a label: name, the other labels, value.
    pub fn with<'a>(&'a self, label: &str, value: &str) -> impl Iterator<Item = Series<'a>> {
        let wanted = format!("{label}=\"{value}\"");
        self.0.iter().filter_map(move |(key, value)| {
            let (name, rest) = key.split_once('{')?;
            let labels: Vec<_> = rest.trim_end_matches('}').split(',').collect();
            labels.contains(&wanted.as_str()).then_some(Series { name, labels, value: *value })
        })
    }
}

/// One line of a scrape.
pub struct Series<'a> {
    pub name: &'a str,
    labels: Vec<&'a str>,
    pub value: f64,
}

impl<'a> Series<'a> {
    /// The value of a counter or gauge of things.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are whole")]
    pub fn count(&self) -> u64 {
        self.value as u64
    }

    /// The value of a label, empty without it.
    pub fn label(&self, name: &str) -> &'a str {
        let found =
            self.labels.iter().filter_map(|label| label.split_once('=')).find(|(key, _)| *key == name);
        found.map_or("", |(_, value)| value.trim_matches('"'))
    }
}

/// A GET by hand; the daemon closes the connection after it.
pub fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: gt\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split(' ').nth(1).context("no status line")?.parse()?;
    Ok((status, body.to_owned()))
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// A daemon that watches the pods of a file which tests add to.
pub struct Shared {
    pub daemon: Daemon,
    file: PathBuf,
    entries: Mutex<BTreeMap<String, String>>,
    _directory: tempfile::TempDir,
}

type Started = BTreeMap<Backend, std::result::Result<Arc<Shared>, String>>;
static SHARED: OnceLock<Mutex<Started>> = OnceLock::new();

impl Shared {
    /// The daemon of a backend, started at the first use.
    pub fn of(backend: Backend) -> Result<Arc<Self>> {
        let mut started = SHARED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let shared = started
            .entry(backend)
            .or_insert_with(|| Self::start(backend, &[]).map(Arc::new).map_err(|error| format!("{error:#}")));
        shared.clone().map_err(anyhow::Error::msg)
    }

    /// A daemon of one test's own, with further arguments.
    pub fn start(backend: Backend, arguments: &[&str]) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("pods.toml");
        fs::write(&file, "")?;
        let pods = static_pods(&file);
        let mut all = vec!["--pods", &pods, "--attach", backend.name()];
        if !arguments.contains(&"--retain") {
            all.extend_from_slice(&["--retain", "0"]);
        }
        all.extend_from_slice(arguments);
        let daemon = Daemon::start(&all)?;
        Ok(Self { daemon, file, entries: Mutex::default(), _directory: directory })
    }

    /// The source of pods, for another daemon beside or after this one.
    pub fn pods(&self) -> String {
        static_pods(&self.file)
    }

    /// Adds a pod (the lines below `[[pod]]`, without its name) and waits until it is accounted for.
    pub fn watch(self: &Arc<Self>, name: &str, lines: &str) -> Result<WatchedPod> {
        let entry = format!("[[pod]]\nnamespace = \"test\"\nname = \"{name}\"\n{lines}\n");
        self.change(|entries| entries.insert(name.to_owned(), entry))?;
        let pod = WatchedPod { shared: Arc::clone(self), name: name.to_owned() };
        // The kernel's maps are set before the series appears.
        eventually("the pod's series", Duration::from_secs(20), || {
            pod.count("gt_connections_opened_total", &[]).ok()
        })
        .with_context(|| self.daemon.log())?;
        Ok(pod)
    }

    /// Adds a pod of which nothing is found in the kernel yet.
    pub fn watch_unattributed(self: &Arc<Self>, name: &str, lines: &str) -> Result<WatchedPod> {
        let entry = format!("[[pod]]\nnamespace = \"test\"\nname = \"{name}\"\n{lines}\n");
        self.change(|entries| entries.insert(name.to_owned(), entry))?;
        eventually("the pod to be seen", Duration::from_secs(20), || {
            self.daemon.log().contains(&format!("watching pod pod=\"{name}\"")).then_some(())
        })?;
        Ok(WatchedPod { shared: Arc::clone(self), name: name.to_owned() })
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> Result<()> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut entries);
        let text: String = entries.values().map(String::as_str).collect();
        write_atomically(&self.file, &text)
    }
}

fn static_pods(file: &Path) -> String {
    format!("static:{}", file.display())
}

fn write_atomically(path: &Path, text: &str) -> Result<()> {
    let next = path.with_extension("next");
    fs::write(&next, text)?;
    fs::rename(&next, path).map_err(Into::into)
}

/// Ends the shared daemons: a static is never dropped.
pub fn stop_all() {
    if let Some(started) = SHARED.get() {
        started.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A pod in the shared daemon's file until dropped.
pub struct WatchedPod {
    shared: Arc<Shared>,
    pub name: String,
}

impl WatchedPod {
    /// The daemon that watches it.
    pub fn daemon(&self) -> &Daemon {
        &self.shared.daemon
    }

    /// A metric of this pod, summed over the labels not named; an error when there is no such series.
    pub fn count(&self, metric: &str, labels: &[(&str, &str)]) -> Result<u64> {
        self.find(metric, labels)?
            .with_context(|| format!("no series {metric} of pod {} with {labels:?}", self.name))
    }

    /// As [`count`](Self::count), `None` without a series.
    pub fn find(&self, metric: &str, labels: &[(&str, &str)]) -> Result<Option<u64>> {
        let mut all = vec![("pod", self.name.as_str())];
        all.extend_from_slice(labels);
        Ok(self.shared.daemon.metrics()?.sum(metric, &all))
    }

    /// Waits until a metric has the expected value and stays there; an error names both values.
    pub fn expect(&self, metric: &str, labels: &[(&str, &str)], expected: u64) -> Result<()> {
        let mut last = None;
        let reached = eventually("the count", Duration::from_secs(5), || {
            last = self.count(metric, labels).ok();
            (last == Some(expected)).then_some(())
        });
        if reached.is_err() {
            bail!(
                "{metric} {labels:?} of {}: {last:?}, not {expected}\n{}",
                self.name,
                self.shared.daemon.log()
            );
        }
        Ok(())
    }
}

impl Drop for WatchedPod {
    fn drop(&mut self) {
        let _the_daemon_ends_anyway = self.shared.change(|entries| entries.remove(&self.name));
    }
}
