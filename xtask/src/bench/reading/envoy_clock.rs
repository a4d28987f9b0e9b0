//! Envoy's clock of CPU time, read all the while, so that what it uses for a look is told from what it does of its own.
//!
//! Envoy's flush of stats, every five seconds, may take longer than a look does: over a minute its share of a core is known
//! no better than that of one flush, of which looks at the slow pace may use little more. Around a look there is next to
//! nothing else.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use nix::time::ClockId;

use super::gateway::MainThread;

/// From one reading to the next.
const STEP: Duration = Duration::from_millis(10);

/// After an answer's last byte Envoy is not quite done with it; when it is, it sleeps, and the kernel has added up its time.
const SETTLED: Duration = Duration::from_millis(3);

/// One reading: `CLOCK_MONOTONIC`, and the CPU time until then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) at_ns: u64,
    pub(super) used_us: f64,
}

/// Reads the clock until it is asked for what it read.
#[derive(Debug)]
pub(super) struct EnvoyClock {
    stop: Arc<AtomicBool>,
    reads: Option<JoinHandle<Result<Vec<Reading>>>>,
}

impl EnvoyClock {
    /// Starts to read.
    pub(super) fn start(thread: MainThread) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reads = thread::spawn(move || {
            let mut readings = Vec::new();
            loop {
                let is_last = stopped.load(Ordering::Relaxed);
                // The time first: what is used up to then is in the reading.
                let at_ns = u64::try_from(Duration::from(ClockId::CLOCK_MONOTONIC.now()?).as_nanos())?;
                readings.push(Reading { at_ns, used_us: thread.used_us()? });
                if is_last {
                    return Ok(readings);
                }
                thread::sleep(STEP);
            }
        });
        Self { stop, reads: Some(reads) }
    }

    /// All readings, oldest first; the last is later than this call by as much as an answer needs to settle.
    pub(super) fn stop(mut self) -> Result<Vec<Reading>> {
        thread::sleep(SETTLED);
        self.stop.store(true, Ordering::Relaxed);
        match self.reads.take().map(JoinHandle::join) {
            Some(Ok(readings)) => readings,
            _ => bail!("the thread that reads Envoy's clock panicked: report this"),
        }
    }
}

impl Drop for EnvoyClock {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Microseconds of CPU time from the last reading before `begun_ns` to the first after `ended_ns`, when all is settled.
pub(super) fn used_between(readings: &[Reading], begun_ns: u64, ended_ns: u64) -> Result<f64> {
    let settled_ns = ended_ns.saturating_add(u64::try_from(SETTLED.as_nanos())?);
    let before = readings.iter().rev().find(|reading| reading.at_ns <= begun_ns);
    let after = readings.iter().find(|reading| reading.at_ns >= settled_ns);
    let (before, after) = before.zip(after).context("a look was made while nobody read Envoy's clock")?;
    Ok(after.used_us - before.used_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises a look between readings, so that all that it cost is in and what comes later is not.
    #[test]
    fn around_a_look() {
        let reading = |ms: u64, used_us| Reading { at_ns: ms * 1_000_000, used_us };
        let readings =
            [reading(0, 0.0), reading(10, 5.0), reading(20, 100.0), reading(30, 900.0), reading(40, 9e3)];
        let used = |begun_ms: u64, ended_ms: u64| {
            used_between(&readings, begun_ms * 1_000_000, ended_ms * 1_000_000)
        };
        assert_eq!(used(12, 17).unwrap(), 95.0);
        assert_eq!(used(10, 18).unwrap(), 895.0, "settled at 21 ms");
        assert_eq!(used(1, 12).unwrap(), 100.0);
        for (begun, ended) in [(12, 39), (12, 90)] {
            assert!(used(begun, ended).unwrap_err().to_string().contains("nobody"));
        }
        assert!(used_between(&readings[1..], 5_000_000, 12_000_000).is_err());
    }
}
