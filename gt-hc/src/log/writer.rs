//! The thread that writes, and the handle that never waits for it.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

use super::Line;

/// Lines that wait at most; with the longest lines about half a megabyte.
const QUEUE: usize = 1024;

/// Where lines are told. Cloned freely.
#[derive(Clone, Debug)]
pub struct Log {
    lines: SyncSender<Line>,
    lost: Arc<AtomicU64>,
}

/// The writing thread.
#[derive(Debug)]
pub struct Writer {
    thread: JoinHandle<()>,
}

impl Log {
    /// Starts the thread that writes to `out`. It ends when the last `Log` is gone, or `out` fails.
    #[must_use]
    pub fn start(out: impl Write + Send + 'static) -> (Self, Writer) {
        let (lines, queue) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        let thread = thread::spawn(move || write(out, &queue, &counted));
        (Self { lines, lost }, Writer { thread })
    }

    /// Tells a line; drops and counts it when the queue is full.
    pub fn tell(&self, line: Line) {
        if let Err(TrySendError::Full(_)) = self.lines.try_send(line) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Writer {
    /// Waits until everything told is written, at most `limit`: a stalled pipe must not hold up the end.
    /// All `Log`s must be gone.
    pub fn finish(self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while !self.thread.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A pipe that nobody reads any more ends the log, not the sidecar.
fn write(mut out: impl Write, queue: &Receiver<Line>, lost: &AtomicU64) {
    // A line is lost while others wait, so one of those brings the count.
    for line in queue {
        let count = lost.swap(0, Ordering::Relaxed);
        let gap = (count > 0).then(|| Line::new(SystemTime::now(), "log_lost").with("lines", count));
        for line in gap.iter().chain([&line]) {
            if writeln!(out, "{}", line.as_str()).and_then(|()| out.flush()).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Mutex, mpsc},
    };

    use super::*;

    /// Writes only while the test lets it.
    struct Gate {
        open: Receiver<()>,
        text: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // An error means that the test has opened the gate for good.
            let _open = self.open.recv();
            self.text.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Exercises a stalled reader so that telling never waits, and what was dropped is told later.
    #[test]
    fn a_stalled_reader_loses_lines_and_holds_up_nobody() {
        let (hand, open) = mpsc::channel();
        let text = Arc::new(Mutex::new(Vec::new()));
        let (log, writer) = Log::start(Gate { open, text: Arc::clone(&text) });
        let start = Instant::now();
        for number in 0..3 * QUEUE {
            log.tell(Line::new(SystemTime::UNIX_EPOCH, "x").with("n", number));
        }
        assert!(start.elapsed() < Duration::from_secs(2), "telling waited for the reader");
        drop(hand);
        drop(log);
        writer.finish(Duration::from_secs(10));
        let text = String::from_utf8(text.lock().unwrap().clone()).unwrap();
        let written = text.lines().filter(|line| line.contains("event=x")).count();
        let lost: usize = text
            .lines()
            .filter_map(|line| line.split_once("event=log_lost lines="))
            .map(|(_, count)| count.parse::<usize>().unwrap())
            .sum();
        assert!(lost > 0, "nothing was lost: the queue has no bound");
        assert_eq!(written + lost, 3 * QUEUE);
    }
}
