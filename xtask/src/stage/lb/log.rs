//! What HAProxy logs, taken in as a syslog server does. Its `log stdout` drops lines when two of its threads have one
//! at the same time (it only tries the lock, src/fd.c `fd_write_frag_line`); a socket gets them all.

use std::{
    os::unix::net::UnixDatagram,
    path::Path,
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use super::Line;

/// How long the thread that listens outlives the log, at most.
const LOOK: Duration = Duration::from_millis(200);

/// HAProxy's own limit for a line is 1024 (`len`).
const LONGEST: usize = 4096;

/// The lines so far.
#[derive(Debug)]
pub struct Log(Arc<Mutex<Vec<Line>>>);

impl Log {
    /// Takes in what comes to a socket, until it is dropped.
    pub(super) fn listen(path: &Path) -> Result<Self> {
        let told = || format!("cannot listen on {}", path.display());
        let socket = UnixDatagram::bind(path).with_context(told)?;
        socket.set_read_timeout(Some(LOOK)).with_context(told)?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::downgrade(&lines);
        thread::spawn(move || take_in(&socket, &sink));
        Ok(Self(lines))
    }

    /// How many lines there are.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The lines after so many.
    #[must_use]
    pub fn after(&self, length: usize) -> Vec<Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(length..).unwrap_or_default().to_vec()
    }
}

fn take_in(socket: &UnixDatagram, sink: &Weak<Mutex<Vec<Line>>>) {
    let mut line = [0; LONGEST];
    while sink.strong_count() > 0 {
        // An error is the time that is over: time to look whether anybody wants to know.
        let Ok(read) = socket.recv(&mut line) else { continue };
        let at = Instant::now();
        let text = String::from_utf8_lossy(line.get(..read).unwrap_or_default()).trim_end().to_owned();
        let Some(lines) = sink.upgrade() else { return };
        lines.lock().unwrap_or_else(PoisonError::into_inner).push(Line { at, text });
    }
}
