//! Copies a container's output into its log file as a container runtime does (CRI format), which is
//! where the daemon reads the transitions of hc.

use std::{
    fs::OpenOptions,
    io::{BufRead as _, BufReader, Read, Write as _},
    path::Path,
    thread::{self, JoinHandle},
    time::SystemTime,
};

use anyhow::{Context as _, Result};

use super::clock;

/// A thread that copies until its container's end of the pipe is closed; drop waits for that, so drop
/// the process first.
#[derive(Debug)]
pub struct CriLog {
    thread: Option<JoinHandle<()>>,
}

impl CriLog {
    /// Appends every line of `pipe` to `file`, each with the time it came at and the stream's name.
    pub fn copy(file: &Path, stream: &'static str, pipe: impl Read + Send + 'static) -> Result<Self> {
        let mut log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(file)
            .with_context(|| format!("cannot open {} for writing", file.display()))?;
        let thread = thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let entry = format!("{} {stream} F {line}\n", clock::utc(SystemTime::now()));
                // One write a line: the daemon may read at any time. A full disk ends the log, not the stage.
                if log.write_all(entry.as_bytes()).is_err() {
                    break;
                }
            }
        });
        Ok(Self { thread: Some(thread) })
    }
}

impl Drop for CriLog {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic of the copying thread was already told on stderr.
            let _ended = thread.join();
        }
    }
}
