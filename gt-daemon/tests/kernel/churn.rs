//! Gauges after many connections at full speed: they equal what the kernel says, to the connection.
//!
//! An emulated machine is slow enough that full speed leaves a daemon no time to start: its client rests.

use std::{
    fs,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use xtask::sandbox::{eventually, is_emulated};

use crate::{
    Case, Skip,
    conversation::abort,
    daemon::{Backend, Daemon, Metrics, Shared},
    scene::{ESTABLISHED, Family, Row, Scene},
};

/// Connections that stay open.
const KEPT: u64 = 500;

pub fn cases(backend: Backend, skip: Option<&String>) -> Vec<Case> {
    let skip: Skip = skip.cloned();
    [Family::V4, Family::V6]
        .into_iter()
        .map(|family| {
            let name = format!("{}::churn::gauges_equal_the_kernels_{}", backend.name(), family.name());
            Case::new(name, skip.clone(), move || churn(backend, family))
        })
        .collect()
}

/// The client's rest after each connection in an emulated machine.
const REST: Duration = Duration::from_millis(2);

/// As many as are wanted on a real machine, fewer in an emulated one.
pub fn many(real: u64, emulated: u64) -> u64 {
    if is_emulated() { emulated } else { real }
}

/// Lets this process hold so many files open.
pub fn raise_file_limit(files: u64) -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < files {
        setrlimit(Resource::RLIMIT_NOFILE, files, hard.max(files))
            .with_context(|| format!("cannot hold {files} files open"))?;
    }
    Ok(())
}

/// Three daemons watch the same pod: one from before the first connection, one started while connections come
/// and go and killed among them, and one started after that one.
fn churn(backend: Backend, family: Family) -> Result<()> {
    raise_file_limit(2 * KEPT + 2000)?;
    let scene = Scene::new(&Shared::of(backend)?, family)?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("pods.toml");
    let entry = format!(
        "[[pod]]\nnamespace = \"test\"\nname = \"late\"\nnetns = \"{}\"\n",
        scene.pod.path().display()
    );
    fs::write(&file, entry)?;
    let pods = format!("static:{}", file.display());
    let start = || -> Result<Daemon> {
        let daemon = Daemon::start(&["--pods", &pods, "--attach", backend.name()])?;
        eventually("connections to be taken in", Duration::from_secs(10), || {
            let metrics = daemon.metrics().ok()?;
            (metrics.sum("gt_connections_adopted_total", &[("pod", "late")])? > 0).then_some(())
        })?;
        Ok(daemon)
    };

    let hosts = Hosts::of(&scene)?;
    let (made, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (kept, late) = thread::scope(|scope| {
        let servers: Vec<_> =
            hosts.listeners.iter().map(|listener| scope.spawn(|| serve(listener))).collect();
        let client = scope.spawn(|| hosts.dial(&scene, &made, &over, many(20_000, 4000)));
        let late = start().and_then(|mut killed| {
            killed.kill()?;
            start()
        });
        over.store(true, Ordering::Relaxed);
        let peers = client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // The servers end with the last words of the client, or of this thread.
        let said = hosts.say_over(&scene);
        let mut kept = Vec::new();
        for server in servers {
            kept.extend(server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        said?;
        anyhow::Ok(((peers?, kept), late?))
    })?;
    let made = made.load(Ordering::Relaxed);
    ensure!(made >= many(20_000, 4000), "only {made} connections were made");
    let over = hosts.listeners.len() as u64;

    let pod = &scene.watched;
    let open = eventually("the sockets to settle", Duration::from_secs(10), || {
        let open = established(&scene).ok()?;
        (open == KEPT).then_some(open)
    })?;
    pod.expect("gt_active_connections", &[], open)?;
    pod.expect("gt_closing_connections", &[], 0)?;
    pod.expect("gt_connections_opened_total", &[], made + over)?;
    pod.expect("gt_connections_closed_total", &[], made + over - KEPT)?;
    pod.expect("gt_connections_adopted_total", &[], 0)?;
    consistent(&late, open)?;
    for daemon in [pod.daemon(), &late] {
        for place in ["connection_table", "kernel_read", "teardown"] {
            let lost = daemon.metrics()?.sum("gt_events_lost_total", &[("where", place)]);
            ensure!(lost.is_none_or(|lost| lost == 0), "lost at {place}: {lost:?}");
        }
    }

    drop(kept);
    pod.expect("gt_active_connections", &[], 0)?;
    pod.expect("gt_closing_connections", &[], 0)?;
    pod.expect("gt_connections_closed_total", &[], made + over)?;
    consistent(&late, 0)
}

/// The number of established sockets in the pod's namespace, by the kernel's own list.
fn established(scene: &Scene) -> Result<u64> {
    Ok(Row::all(&scene.pod)?.iter().filter(|row| row.state == ESTABLISHED).count() as u64)
}

/// A daemon that came late has what is open now, and what it saw fits together.
fn consistent(daemon: &Daemon, open: u64) -> Result<()> {
    let labels = [("pod", "late")];
    let read = |metrics: &Metrics, metric| metrics.sum(metric, &labels).context("no series of the pod");
    let mut last = String::new();
    let agreed = eventually("the late daemon's counts", Duration::from_secs(5), || {
        let metrics = daemon.metrics().ok()?;
        let count = |metric| read(&metrics, metric).ok();
        let active = count("gt_active_connections")?;
        let closing = count("gt_closing_connections")?;
        let came = count("gt_connections_opened_total")? + count("gt_connections_adopted_total")?;
        let went = count("gt_connections_closed_total")?;
        last = format!("active {active}, closing {closing}, came {came}, went {went}, open {open}");
        (active == open && closing == 0 && came == went + open).then_some(())
    });
    if agreed.is_err() {
        bail!("{last}\n{}", daemon.log());
    }
    Ok(())
}

/// The pod's listeners, and where the peer finds them.
struct Hosts {
    listeners: Vec<TcpListener>,
    targets: Vec<SocketAddr>,
}

/// Said by the peer: close first; close when I do; stay open; stop listening.
const CLOSE: u8 = b'c';
const WAIT: u8 = b'w';
const KEEP: u8 = b'k';
const OVER: u8 = b'o';

impl Hosts {
    /// Several ports, so that the peer does not run out of its own.
    fn of(scene: &Scene) -> Result<Self> {
        let address: IpAddr = scene.pod_address()?;
        let listeners = (0..4).map(|_| scene.listen_in_pod()).collect::<Result<Vec<_>>>()?;
        let ports = listeners.iter().map(TcpListener::local_addr);
        let targets =
            ports.map(|local| Ok(SocketAddr::new(address, local?.port()))).collect::<Result<_>>()?;
        Ok(Self { listeners, targets })
    }

    /// Dials and parts until `over` and `least` have been made; returns what stays open.
    fn dial(&self, scene: &Scene, made: &AtomicU64, over: &AtomicBool, least: u64) -> Result<Vec<TcpStream>> {
        scene.peer.enter(|| {
            let mut kept = Vec::new();
            let mut targets = self.targets.iter().cycle();
            for number in 0_u64.. {
                if over.load(Ordering::Relaxed) && number >= least && kept.len() as u64 == KEPT {
                    break;
                }
                if is_emulated() {
                    thread::sleep(REST);
                }
                let target = targets.next().context("no listener")?;
                let peer = TcpStream::connect(target)?;
                made.fetch_add(1, Ordering::Relaxed);
                // Kept ones are spread over the first of them, older and younger than any daemon.
                if number % (least / KEPT / 2) == 0 && (kept.len() as u64) < KEPT {
                    say(&peer, KEEP)?;
                    kept.push(peer);
                    continue;
                }
                match number % 3 {
                    0 => {
                        say(&peer, CLOSE)?;
                        super::conversations::ended(&peer)?;
                    }
                    1 => say(&peer, WAIT)?,
                    _ => {
                        say(&peer, WAIT)?;
                        abort(peer)?;
                    }
                }
            }
            Ok(kept)
        })?
    }

    fn say_over(&self, scene: &Scene) -> Result<()> {
        scene
            .peer
            .enter(|| self.targets.iter().try_for_each(|target| say(&TcpStream::connect(target)?, OVER)))?
    }
}

fn say(mut stream: &TcpStream, what: u8) -> Result<()> {
    std::io::Write::write_all(&mut stream, &[what]).map_err(Into::into)
}

/// Accepts until told that it is over; returns what stays open.
fn serve(listener: &TcpListener) -> Result<Vec<TcpStream>> {
    let mut kept = Vec::new();
    loop {
        let (mut stream, _) = listener.accept()?;
        let mut word = [0];
        // A reset may have overtaken the word.
        let _reset = std::io::Read::read(&mut stream, &mut word);
        match word[0] {
            KEEP => kept.push(stream),
            OVER => return Ok(kept),
            WAIT => {
                let _reset = std::io::Read::read(&mut stream, &mut word);
            }
            _ => {}
        }
    }
}
