//! Continuous load: clients that ask for short answers one after the other, some on connections they keep, some on a new
//! one each time.

use std::{
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, SystemTime},
};

use anyhow::{Result, anyhow};

use super::topology::FRONTEND;
use crate::{
    sandbox::Netns,
    stage::{client, clock},
};

/// Clients of each kind.
const EACH: usize = 2;

/// Between an answer and the next request of the same client.
const PAUSE: Duration = Duration::from_millis(40);

const LIMIT: Duration = Duration::from_secs(10);

/// Load that goes on until it is ended or dropped.
#[derive(Debug)]
pub(super) struct Load {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Tally>>>,
}

/// What its clients saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) sent: u64,
    pub(super) good: u64,
    /// Answers of 500 and more.
    pub(super) refused: u64,
    /// No connection, or no whole answer.
    pub(super) broken: u64,
    /// Lines about what was not good.
    pub(super) lines: Vec<String>,
}

impl Load {
    /// Starts the clients.
    pub(super) fn start(netns: &Arc<Netns>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let threads = (0..EACH * 2)
            .map(|number| {
                let (netns, over) = (Arc::clone(netns), Arc::clone(&over));
                thread::spawn(move || netns.enter(|| go_on(number % 2 == 0, &over)))
            })
            .collect();
        Self { over, threads }
    }

    /// Ends it when each client has its last answer.
    pub(super) fn end(mut self) -> Result<Tally> {
        self.over.store(true, Ordering::Relaxed);
        let mut sum = Tally::default();
        for thread in self.threads.drain(..) {
            let Tally { sent, good, refused, broken, lines } =
                thread.join().map_err(|_panic| anyhow!("a client's thread panicked"))??;
            sum.sent += sent;
            sum.good += good;
            sum.refused += refused;
            sum.broken += broken;
            sum.lines.extend(lines);
        }
        sum.lines.sort_unstable();
        Ok(sum)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // Whoever drops it early has another error to tell.
            let _ended = thread.join();
        }
    }
}

fn go_on(keep: bool, over: &AtomicBool) -> Tally {
    let mut tally = Tally::default();
    let mut kept = None;
    while !over.load(Ordering::Relaxed) {
        tally.sent += 1;
        let begun = SystemTime::now();
        match ask(&mut kept) {
            Ok(200) => tally.good += 1,
            Ok(status) => {
                kept = None;
                tally.note(begun, &status.to_string(), "");
                tally.refused += 1;
            }
            Err(error) => {
                kept = None;
                tally.note(begun, "000", &format!(" error={:?}", format!("{error:#}")));
                tally.broken += 1;
            }
        }
        if !keep {
            kept = None;
        }
        thread::sleep(PAUSE);
    }
    tally
}

/// One request, on the connection that is kept if there is one.
fn ask(kept: &mut Option<TcpStream>) -> Result<u16> {
    let stream = match kept {
        Some(stream) => stream,
        None => {
            let stream = TcpStream::connect_timeout(&FRONTEND, LIMIT)?;
            stream.set_read_timeout(Some(LIMIT))?;
            kept.insert(stream)
        }
    };
    Ok(client::again(stream, "/")?.status)
}

impl Tally {
    fn note(&mut self, begun: SystemTime, status: &str, rest: &str) {
        self.lines.push(format!("{} GET / http_code={status}{rest}\n", clock::utc(begun)));
    }
}
