//! The ring buffer, read by one task.

use std::{io, time::Duration};

use aya::{
    Ebpf,
    maps::{MapData, RingBuf},
};
use tokio::io::unix::AsyncFd;

use super::{
    ProbeError, chain,
    decode::{DecodeError, Observed, decode},
};

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
    pub async fn forward(self, mut sink: impl FnMut(Result<Observed, DecodeError>)) -> io::Result<()> {
        /// Other tasks get their turn after so many events in a burst.
        const BATCH: usize = 1024;
        /// How often events are looked for.
        const PERIOD: Duration = Duration::from_millis(10);

        #[expect(unsafe_code, reason = "tokio wants a promise that the descriptor stays the same")]
        // SAFETY: the ring buffer owns its map's descriptor and gives the same one until it is dropped.
        let mut ready = unsafe { AsyncFd::register(self.ring) }?;
        loop {
            let mut taken = 0;
            while taken < BATCH
                && let Some(record) = ready.get_mut().next()
            {
                sink(decode(&record));
                taken += 1;
            }
            if taken == BATCH {
                tokio::task::yield_now().await;
                continue;
            }
            // The kernel side wakes nobody for a single event: that would cost more than the event.
            tokio::select! {
                guard = ready.readable_mut() => guard?.clear_ready(),
                () = tokio::time::sleep(PERIOD) => {}
            }
        }
    }
}
