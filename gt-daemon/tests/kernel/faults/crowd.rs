//! Many who listen to what happens, most of them slow: they lose only their own, and nobody else anything.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use xtask::sandbox::eventually;

use crate::{
    churn::{many, raise_file_limit},
    daemon::{Backend, Daemon, Shared},
    scene::{Family, Scene},
};

/// A stream that is open; the head of its answer is read.
struct Stream(BufReader<UnixStream>);

impl Stream {
    /// Asks for a stream; the answer's status and, where that is not 200, its body.
    fn ask(daemon: &Daemon) -> Result<(u16, String, Self)> {
        let mut socket = UnixStream::connect(daemon.socket())?;
        socket.set_read_timeout(Some(Duration::from_secs(20)))?;
        socket.write_all(b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = BufReader::new(socket);
        let mut line = String::new();
        answer.read_line(&mut line)?;
        let status = line.split(' ').nth(1).context("no status line")?.parse()?;
        while line.trim_end() != "" {
            line.clear();
            answer.read_line(&mut line)?;
        }
        let mut body = String::new();
        if status != 200 {
            answer.read_to_string(&mut body)?;
        }
        Ok((status, body, Self(answer)))
    }

    /// Opens one; the daemon may ask to come again in a moment.
    fn open(daemon: &Daemon) -> Result<Self> {
        eventually("a stream", Duration::from_secs(20), || match Self::ask(daemon) {
            Ok((200, _, stream)) => Some(Ok(stream)),
            Ok((503, body, _)) if body.contains("in a moment") => None,
            Ok((status, body, _)) => Some(Err(anyhow::anyhow!("{status}: {body}"))),
            Err(error) => Some(Err(error)),
        })?
    }

    /// The next message.
    fn next(&mut self) -> Result<Value> {
        loop {
            let mut line = String::new();
            ensure!(self.0.read_line(&mut line)? > 0, "the stream has ended");
            // Between messages there are lengths of chunks, and words that the stream is alive.
            if let Some(json) = line.strip_prefix("data:") {
                return serde_json::from_str(json).with_context(|| line.clone());
            }
        }
    }

    /// Reads until so many ends of connections of a pod are told, each once, and adds up what was lost on the way.
    fn ends(&mut self, pod: &str, wanted: u64) -> Result<(u64, u64)> {
        let (mut ends, mut lost) = (0, 0);
        while ends < wanted {
            let message = self.next()?;
            if message["type"] == "lost" {
                lost += message["messages"].as_u64().context("no number")?;
            }
            let is_end = message["event"] == "tcp_teardown" && message["word"] == "told";
            ends += u64::from(is_end && message["pod"] == pod);
        }
        Ok((ends, lost))
    }
}

/// Resident memory, KiB.
fn resident(daemon: &Daemon) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    line.trim().trim_end_matches(" kB").parse().map_err(Into::into)
}

/// One connection after the other that a user opens and ends.
fn connections(scene: &Scene, count: u64) -> Result<()> {
    let listener = scene.listen_in_pod()?;
    let port = listener.local_addr()?.port();
    for _ in 0..count {
        let peer = scene.dial_pod(port)??;
        let (pod, _) = listener.accept()?;
        drop(peer);
        drop(pod);
    }
    Ok(())
}

/// What a scrape took at most.
fn slowest(daemon: &Daemon, scrapes: usize) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    for _ in 0..scrapes {
        let begun = Instant::now();
        daemon.metrics()?;
        slowest = slowest.max(begun.elapsed());
        thread::sleep(Duration::from_millis(20));
    }
    Ok(slowest)
}

/// Exercises as many readers as there may be, one of which reads and the others do not, and one more: that one is told the limit, the
/// quick one hears everything, scrapes are answered as ever, memory has a bound, and a slow one that reads again is told what it lost
/// and goes on. When they are gone their places are free.
pub(super) fn crowd(backend: Backend) -> Result<()> {
    let readers = many(250, 30);
    raise_file_limit(readers + 1_000)?;
    let daemon = Arc::new(Shared::start(backend, &["--streams", &readers.to_string()])?);
    let scene = Scene::new(&daemon, Family::V4)?;
    let name = scene.watched.name.clone();
    let gt = &daemon.daemon;
    let before = resident(gt)?;
    let mut quick = Stream::open(gt)?;
    let mut slow = (1..readers).map(|_| Stream::open(gt)).collect::<Result<Vec<_>>>()?;
    let (status, told, _) = Stream::ask(gt)?;
    ensure!(status == 503 && told.contains(&format!("{readers} streams are open")), "{status}: {told}");
    ensure!(told.contains("--streams"), "{told}");

    // More than wait for a reader (2,048) and fit into its socket; the quick one sets the pace.
    let (batches, batch) = (many(40, 16), 250);
    for _ in 0..batches {
        connections(&scene, batch)?;
        let (_, lost) = quick.ends(&name, batch)?;
        ensure!(lost == 0, "the quick reader lost {lost} messages to the slow ones");
    }
    let took = slowest(gt, 10)?;
    ensure!(took < Duration::from_secs(many(1, 20)), "a scrape took {took:?}");
    scene.watched.expect("gt_connections_closed_total", &[("class", "data")], batches * batch)?;
    let more = resident(gt)?.saturating_sub(before);
    println!("{readers} readers: {more} KiB more, {took:?} for a scrape");
    ensure!(more < MOST_KIB * readers, "{more} KiB more for {readers} readers");

    let of_slow = slow.first_mut().context("no slow reader")?;
    let (mut ends, mut lost) = (0, 0);
    while lost == 0 {
        let message = of_slow.next()?;
        ends += u64::from(message["event"] == "tcp_teardown" && message["word"] == "told");
        lost = message["messages"].as_u64().filter(|_| message["type"] == "lost").unwrap_or(0);
    }
    // What was lost are ends and what became of their pod.
    ensure!(
        ends < batches * batch && ends + lost >= batches * batch,
        "{ends} ends told, {lost} messages lost"
    );
    connections(&scene, 10)?;
    of_slow.ends(&name, 10)?;

    drop(slow);
    eventually("the places", Duration::from_secs(20), || {
        Stream::ask(gt).ok().filter(|(status, ..)| *status == 200)
    })
    .map(drop)
}

/// What one reader may cost, KiB: its messages are shared, and the bytes of some wait for its socket.
const MOST_KIB: u64 = 64;
