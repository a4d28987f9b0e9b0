//! Peers that are slow, silent, many or wrong: none of them keeps anybody from an answer.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;

use crate::{
    Case,
    fake_envoy::{FakeEnvoy, Mode},
    http,
    sidecar::Sidecar,
};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("limits::silent_peers_keep_nobody_out", silent_peers_keep_nobody_out),
        Case::new("limits::heads", heads),
        Case::new("limits::a_slow_head", a_slow_head),
        Case::new("limits::health_is_fast_while_draining", health_is_fast_while_draining),
        Case::new("limits::a_kept_connection", a_kept_connection),
        Case::new("limits::nobody_reads_the_log", nobody_reads_the_log),
    ]
}

/// Exercises more silent connections than there are places, all held open, so that the next one is answered.
fn silent_peers_keep_nobody_out() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(0, 0))?;
    let sidecar = Sidecar::start(envoy.address, &[])?;
    let mut silent = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(sidecar.address)?;
        if number % 2 == 0 {
            // One that has been pushed out already does not matter.
            let _pushed_out = stream.write_all(b"GET /health HTTP/1.1\r\nX: ");
        }
        silent.push(stream);
    }
    let start = Instant::now();
    assert_eq!(sidecar.health()?, (200, 200));
    ensure!(start.elapsed() < Duration::from_secs(2), "answered after {:?}", start.elapsed());
    let line = sidecar.wait_for_line("event=connection_pushed_out")?;
    assert!(line.contains("peer=127.0.0.1"), "{line}");
    // The oldest are gone.
    let mut oldest = silent.swap_remove(1);
    oldest.set_read_timeout(Some(Duration::from_secs(5)))?;
    assert_eq!(oldest.read(&mut [0; 1]).unwrap_or(0), 0);
    Ok(())
}

/// Exercises heads that are too long, too many or none so that each is refused and the server lives.
fn heads() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(0, 0))?;
    let sidecar = Sidecar::start(envoy.address, &[])?;
    let long = format!("GET /health HTTP/1.1\r\nHost: hc\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    assert_eq!(http::raw(sidecar.address, long.as_bytes())?.status, 431);
    let many = format!("GET /health HTTP/1.1\r\nHost: hc\r\n{}\r\n", "X: y\r\n".repeat(200));
    assert_eq!(http::raw(sidecar.address, many.as_bytes())?.status, 431);
    assert_eq!(http::raw(sidecar.address, b"HELO hc\r\n\r\n")?.status, 400);
    assert_eq!(sidecar.health()?, (200, 200));
    Ok(())
}

/// Exercises a head that comes byte by byte so that it ends after the limit, however busy it looks.
fn a_slow_head() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(0, 0))?;
    let sidecar = Sidecar::start(envoy.address, &[])?;
    let mut stream = TcpStream::connect(sidecar.address)?;
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    let start = Instant::now();
    stream.write_all(b"GET /health HTTP/1.1\r\nX: ")?;
    while start.elapsed() < Duration::from_secs(20) {
        let ended = match stream.read(&mut [0; 256]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => {
                !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
            }
        };
        if ended || stream.write_all(b"x").is_err() {
            ensure!(start.elapsed() > Duration::from_secs(9), "ended after {:?} only", start.elapsed());
            return Ok(());
        }
    }
    anyhow::bail!("a head that takes 20 s is still waited for")
}

/// Exercises health checks while Envoy hangs, the log is full and silent peers wait, so that each answer is
/// right and quick.
fn health_is_fast_while_draining() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Hang)?;
    let sidecar = Sidecar::start(envoy.address, &[("DRAIN_TIMEOUT", "60")])?;
    sidecar.ask("POST", "/drain")?;
    let mut silent = Vec::new();
    for _ in 0..30 {
        silent.push(TcpStream::connect(sidecar.address)?);
    }
    let mut times = Vec::new();
    for _ in 0..300 {
        let start = Instant::now();
        let answer = sidecar.ask("GET", "/health_check.html")?;
        times.push(start.elapsed());
        assert_eq!((answer.status, answer.body.as_str()), (200, "DRAINING\n"));
    }
    times.sort_unstable();
    let (median, last) = (times[150], times[299]);
    ensure!(median < Duration::from_millis(20), "the median is {median:?}");
    ensure!(last < Duration::from_secs(1), "the slowest took {last:?}");
    // A flood of checks costs a bounded number of lines.
    let told = sidecar.log().iter().filter(|line| line.contains("event=health_check")).count();
    ensure!((1..300).contains(&told), "{told} lines");
    Ok(())
}

/// Exercises several requests on one connection, as a reader on the node sends them.
fn a_kept_connection() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(0, 0))?;
    let sidecar = Sidecar::start(envoy.address, &[])?;
    let mut stream = TcpStream::connect(sidecar.address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    for _ in 0..3 {
        stream.write_all(b"GET /state HTTP/1.1\r\nHost: hc\r\n\r\n")?;
        let mut text = String::new();
        let mut buffer = [0; 4096];
        while !text.contains("\"state\":\"OPEN\"") {
            let read = stream.read(&mut buffer)?;
            ensure!(read > 0, "closed after {text:?}");
            text.push_str(std::str::from_utf8(buffer.get(..read).context("read too much")?)?);
        }
    }
    Ok(())
}

/// Exercises a pipe that nobody reads, full and with the queue before it full too, so that calls and health
/// checks are answered all the same, and SIGTERM ends the process.
fn nobody_reads_the_log() -> Result<()> {
    let envoy = FakeEnvoy::start(Mode::Counts(1, 1))?;
    let mut sidecar = Sidecar::start(envoy.address, &[])?;
    sidecar.stop_reading();
    // Each pair is two lines of a hundred bytes: together more than the pipe's 64 KiB and the 1024 lines that
    // wait before it.
    for _ in 0..1500 {
        assert_eq!(sidecar.ask("POST", "/drain")?.status, 200);
        assert_eq!(sidecar.ask("POST", "/reopen")?.status, 200);
    }
    let start = Instant::now();
    assert_eq!(sidecar.health()?, (200, 200));
    ensure!(start.elapsed() < Duration::from_secs(1), "answered after {:?}", start.elapsed());
    envoy.set(Mode::Counts(0, 0));
    sidecar.signal(Signal::SIGTERM)?;
    assert_eq!(sidecar.wait()?.code(), Some(0));
    Ok(())
}
