//! The ring buffer, read by one task.

use std::{io, time::Duration};

use aya::{
    Ebpf,
    maps::{MapData, RingBuf},
};
use tokio::io::unix::AsyncFd;

use crate::clock::monotonic_ns;

use super::{
    ProbeError, chain,
    decode::{DecodeError, Observed, decode},
};

/// What the ring's reader hands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Event(Observed),
    /// All events of what happened before this instant (`CLOCK_MONOTONIC`, nanoseconds) have been handed on.
    Drained(u64),
}

/// A program may be interrupted between taking the time of its event and sending it.
const SENDING_NS: u64 = 2_000_000;

/// The kernel programs' events.
pub struct Events {
    ring: RingBuf<MapData>,
}

impl Events {
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<Self, ProbeError> {
        const NAME: &str = "EVENTS";
        let map = ebpf.take_map(NAME).ok_or(ProbeError::Missing { what: "map", name: NAME })?;
        let ring =
            RingBuf::try_from(map).map_err(|error| ProbeError::Map { name: NAME, cause: chain(&error) })?;
        Ok(Self { ring })
    }

    /// Hands every event to `sink` as it comes, until the task is dropped. Must run inside a tokio runtime.
    pub async fn forward(self, mut sink: impl FnMut(Result<Next, DecodeError>)) -> io::Result<()> {
        /// Other tasks get their turn after so many events in a burst.
        const BATCH: usize = 1024;
        /// How often events are looked for.
        const PERIOD: Duration = Duration::from_millis(10);
        /// How often it is said that there were none.
        const SILENCE_NS: u64 = 100_000_000;

        #[expect(unsafe_code, reason = "tokio wants a promise that the descriptor stays the same")]
        // SAFETY: the ring buffer owns its map's descriptor and gives the same one until it is dropped.
        let mut ready = unsafe { AsyncFd::register(self.ring) }?;
        let mut said_ns = 0;
        loop {
            let mut taken = 0;
            let begun = monotonic_ns();
            while taken < BATCH
                && let Some(record) = ready.get_mut().next()
            {
                sink(decode(&record).map(Next::Event));
                taken += 1;
            }
            if taken == BATCH {
                tokio::task::yield_now().await;
                continue;
            }
            if taken > 0 || begun.saturating_sub(said_ns) >= SILENCE_NS {
                said_ns = begun;
                sink(Ok(Next::Drained(begun.saturating_sub(SENDING_NS))));
            }
            // The kernel side wakes nobody for a single event: that would cost more than the event.
            tokio::select! {
                guard = ready.readable_mut() => guard?.clear_ready(),
                () = tokio::time::sleep(PERIOD) => {}
            }
        }
    }
}
