//! The ways to watch a pod's resets: gt, and what was there before it. Each is started, left alone and ended.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::Signal;

use crate::{
    bench::{daemon, daemon::Binaries, reading::children_us, stage::Stage},
    sandbox::{Netns, Process},
    stage::{daemon::Daemon, interrupt},
};

/// Who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Nobody: what the load takes by itself.
    Nobody,
    Gt,
    Tcpdump,
    Bpftrace,
    Process,
}

impl Way {
    pub(super) const ALL: [Self; 5] = [Self::Nobody, Self::Gt, Self::Tcpdump, Self::Bpftrace, Self::Process];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Gt => "gt-daemon",
            Self::Tcpdump => "tcpdump of RSTs",
            Self::Bpftrace => "bpftrace",
            Self::Process => "`ss` in the pod every 2 s",
        }
    }
}

/// The filter of the old harness.
const RST: &str = "tcp[tcpflags] & tcp-rst != 0";

/// How often a process is started in the pod, as the walkthrough's poller does.
const EVERY: Duration = Duration::from_secs(2);

/// The tracepoints that gt uses too, a line each as gt has an event each: of the pod's namespace, like tcpdump.
const SCRIPT: &str = "
tracepoint:tcp:tcp_receive_reset { printf(\"%llu received %d %d\\n\", nsecs, args->sport, args->dport); }
tracepoint:tcp:tcp_send_reset { printf(\"%llu sent %d %d\\n\", nsecs, args->sport, args->dport); }
tracepoint:sock:inet_sock_set_state /args->protocol == 6/ {
    printf(\"%llu %d %d %d %d\\n\", nsecs, args->oldstate, args->newstate, args->sport, args->dport);
}
";

/// Somebody who watches; ended on drop.
pub(super) enum Watcher {
    Nobody,
    Gt(Daemon),
    Reader { process: Process, lines: Lines },
    Poller(Poller),
}

/// What a program has printed.
pub(super) struct Lines {
    resets: Arc<AtomicU64>,
    reader: Option<JoinHandle<()>>,
}

/// Starts a process in the pod again and again.
pub(super) struct Poller {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Watcher {
    /// Starts it and waits until it watches; an error where it cannot here.
    pub(super) fn start(
        way: Way,
        stage: &Stage,
        binaries: &Binaries,
        attach: &str,
        workdir: &Path,
    ) -> Result<Self> {
        match way {
            Way::Nobody => Ok(Self::Nobody),
            Way::Gt => {
                let daemon = daemon::start(binaries, attach, stage.server_only())?;
                stage.until_watched(&daemon)?;
                Ok(Self::Gt(daemon))
            }
            Way::Tcpdump => {
                let mut command = stage.watched_pod().command("tcpdump");
                command.args(["-i", "eth0", "-nn", "-l", "-tt", "-B", "8192", RST]);
                reader("tcpdump", &mut command, "listening on", "Flags [R", workdir)
            }
            Way::Bpftrace => {
                let mut command = Command::new("bpftrace");
                command.args(["-B", "line", "-e", SCRIPT]);
                reader("bpftrace", &mut command, "Attaching", " received ", workdir)
            }
            Way::Process => Ok(Self::Poller(Poller::start(stage.watched_pod()))),
        }
    }

    /// Nanoseconds of CPU time that its processes have used so far.
    pub(super) fn used_ns(&self) -> Result<u64> {
        match self {
            Self::Nobody => Ok(0),
            Self::Gt(daemon) => threads_ns(daemon.id()),
            Self::Reader { process, .. } => threads_ns(process.id()),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a time since the start"
            )]
            Self::Poller(_) => Ok((children_us()? * 1000.0) as u64),
        }
    }

    /// RSTs that the pod received, as far as it knows.
    pub(super) fn resets(&self) -> Result<u64> {
        match self {
            // A process that looks now and then sees sockets, and no RST.
            Self::Nobody | Self::Poller(_) => Ok(0),
            Self::Gt(daemon) => {
                let scrape = daemon.scrape()?;
                let counted = scrape.select("gt_rst_total", &[("direction", "received")]);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "counts are whole"
                )]
                let counted = counted.map(|sample| sample.value).sum::<f64>() as u64;
                Ok(counted)
            }
            Self::Reader { lines, .. } => Ok(lines.resets.load(Ordering::Relaxed)),
        }
    }
}

/// Starts a program that prints a line for each event, and waits for the words by which it says that it watches.
fn reader(name: &str, command: &mut Command, begins: &str, reset: &str, workdir: &Path) -> Result<Watcher> {
    let said: PathBuf = workdir.join(format!("{name}.stderr"));
    let stderr = File::create(&said).with_context(|| format!("cannot make {}", said.display()))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
    let mut process = Process::start(name, command)?;
    let stdout = process.child().stdout.take().with_context(|| format!("no pipe to {name}"))?;
    let (resets, begun) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let thread = {
        let (resets, begun) = (Arc::clone(&resets), Arc::clone(&begun));
        let (reset, begins) = (reset.to_owned(), begins.to_owned());
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if line.contains(&reset) {
                    resets.fetch_add(1, Ordering::Relaxed);
                } else if line.contains(&begins) {
                    begun.store(true, Ordering::Relaxed);
                }
            }
        })
    };
    let words = || fs::read_to_string(&said).unwrap_or_default();
    interrupt::wait_for(&format!("{name} to watch"), Duration::from_secs(20), || {
        if let Some(status) = process.wait(Duration::ZERO)? {
            bail!("{name} ended with {status}: {}", words().trim());
        }
        let begun = begun.load(Ordering::Relaxed) || words().contains(begins);
        Ok(begun.then_some(()))
    })?;
    // What it says first is not yet that all is in place.
    interrupt::pause(Duration::from_millis(500))?;
    Ok(Watcher::Reader { process, lines: Lines { resets, reader: Some(thread) } })
}

impl Poller {
    fn start(pod: &Netns) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (end, netns) = (Arc::clone(&over), pod.path());
        let thread = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let mut command = Command::new("nsenter");
                command.arg(format!("--net={}", netns.display())).args(["ss", "-Htn"]);
                command.stdin(Stdio::null()).stdout(Stdio::null());
                command.status().context("cannot start nsenter")?;
                thread::sleep(EVERY);
            }
            Ok(())
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        match self {
            Self::Nobody | Self::Gt(_) => {}
            Self::Reader { process, lines } => {
                let _gone_already = process.signal(Signal::SIGINT);
                let _ended = process.wait(Duration::from_secs(5));
                if let Some(reader) = lines.reader.take() {
                    let _panicked = reader.join();
                }
            }
            Self::Poller(poller) => {
                poller.over.store(true, Ordering::Relaxed);
                if let Some(thread) = poller.thread.take() {
                    let _told_by_its_figures = thread.join();
                }
            }
        }
    }
}

/// CPU time of a process's threads (Documentation/scheduler/sched-stats.rst, `/proc/PID/schedstat`).
fn threads_ns(pid: u32) -> Result<u64> {
    let directory = format!("/proc/{pid}/task");
    let threads = fs::read_dir(&directory).with_context(|| format!("cannot read {directory}"))?;
    let mut sum = 0;
    for thread in threads.flatten() {
        let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        sum += text.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(sum)
}
