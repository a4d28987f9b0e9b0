//! How the lab speaks while it runs: a line for what happens, and how much of the time planned has passed.

use std::{
    io::{IsTerminal as _, Write as _},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use super::artifacts;
use crate::stage::clock;

/// How often the time is told: on a terminal, where it stays in one line; and elsewhere, where each is a line more.
const ON_TERMINAL: Duration = Duration::from_secs(1);
const IN_LINES: Duration = Duration::from_secs(15);

/// One round as it is told. Its clock stops when it is dropped.
#[derive(Debug)]
pub(super) struct Story {
    inside: Arc<Mutex<Inside>>,
    over: Arc<AtomicBool>,
    ticker: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Inside {
    /// `run.log`.
    log: PathBuf,
    name: String,
    terminal: bool,
    begun: Instant,
    planned: Duration,
    told: Instant,
}

impl Story {
    /// Begins one, of which a copy goes into a file.
    pub(super) fn begin(name: &str, log: PathBuf, planned: Duration) -> Self {
        let now = Instant::now();
        let inside = Inside {
            log,
            name: name.to_owned(),
            terminal: std::io::stdout().is_terminal(),
            begun: now,
            planned,
            told: now,
        };
        let inside = Arc::new(Mutex::new(inside));
        let over = Arc::new(AtomicBool::new(false));
        let (seen, end) = (Arc::clone(&inside), Arc::clone(&over));
        let ticker = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(50));
                lock(&seen).tick();
            }
        });
        Self { inside, over, ticker: Some(ticker) }
    }

    /// Tells what happened just now.
    pub(super) fn tell(&self, words: &str) {
        let inside = lock(&self.inside);
        let now = clock::utc(SystemTime::now());
        let tag = inside.name.to_uppercase();
        // A log that cannot be written is no reason to end the round: what matters is told on stdout too.
        let _not_written = artifacts::append(&inside.log, &format!("[{now}] [{tag}] {words}\n"));
        inside.say(&format!("{}  {words}", now.get(11..23).unwrap_or_default()));
    }
}

impl Inside {
    fn tick(&mut self) {
        let every = if self.terminal { ON_TERMINAL } else { IN_LINES };
        if self.told.elapsed() < every {
            return;
        }
        self.told = Instant::now();
        let line = progress(&self.name, self.begun.elapsed(), self.planned);
        if self.terminal {
            write(&format!("\r\x1b[K{line}"));
        } else {
            write(&format!("{line}\n"));
        }
    }

    fn say(&self, line: &str) {
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        write(&format!("{clear}{line}\n"));
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(ticker) = self.ticker.take() {
            // A panic of it was already told on stderr.
            let _ended = ticker.join();
        }
        if lock(&self.inside).terminal {
            write("\r\x1b[K");
        }
    }
}

fn lock(inside: &Mutex<Inside>) -> MutexGuard<'_, Inside> {
    inside.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `s1 current http1: 12 s of about 20 s`.
fn progress(name: &str, elapsed: Duration, planned: Duration) -> String {
    let late = if elapsed > planned { ", later than planned" } else { "" };
    format!("{}: {} s of about {} s{late}", name.replace('_', " "), elapsed.as_secs(), planned.as_secs())
}

/// To stdout. A reader that went away (`| head`) must not keep the lab from cleaning up.
pub(super) fn write(text: &str) {
    let mut out = std::io::stdout();
    let _nobody_listens = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises a round in time and a late one so that a stuck lab does not look like one at work.
    #[test]
    fn tells_of_a_late_round() {
        let told =
            |elapsed| progress("s1_current_http1", Duration::from_secs(elapsed), Duration::from_secs(20));
        assert_eq!(told(12), "s1 current http1: 12 s of about 20 s");
        assert_eq!(told(21), "s1 current http1: 21 s of about 20 s, later than planned");
    }
}
