//! A thread that asks something again and again and writes down the answers, each with its time.

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context as _, Result};

use crate::stage::clock;

/// How soon it ends when it is dropped.
const LOOK: Duration = Duration::from_millis(20);

/// Runs until it is dropped.
#[derive(Debug)]
pub(super) struct Sampler {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Appends to `file` what `ask` gives for a time stamp, every `period`. `None` is no answer: there is no line then.
    pub(super) fn start(
        file: &Path,
        period: Duration,
        mut ask: impl FnMut(&str) -> Option<String> + Send + 'static,
    ) -> Result<Self> {
        let mut out = OpenOptions::new()
            .create(true)
            .append(true)
            .open(file)
            .with_context(|| format!("cannot open {} for writing", file.display()))?;
        let over = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut next = Instant::now();
            while !end.load(Ordering::Relaxed) {
                if Instant::now() >= next {
                    next = Instant::now() + period;
                    let lines = ask(&clock::utc(SystemTime::now()));
                    // A full disk ends the samples, not the lab.
                    if lines.is_some_and(|lines| out.write_all(lines.as_bytes()).is_err()) {
                        return;
                    }
                }
                thread::sleep(LOOK.min(period));
            }
        });
        Ok(Self { over, thread: Some(thread) })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of it was already told on stderr.
            let _ended = thread.join();
        }
    }
}
