//! Waking the thread that follows pods, from whatever has learnt something new.
//!
//! One [`Sleeper`] waits; any number of [`Waker`]s, on threads or tasks, end its sleep, and so does a descriptor
//! that becomes readable. What is new is not passed: the woken thread looks at all of it.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::eventfd::{EfdFlags, EventFd},
};

/// Ends the sleep of the [`Sleeper`] it was taken from; never waits.
#[derive(Clone, Debug)]
pub struct Waker(Arc<EventFd>);

impl Waker {
    /// Wakes the sleeper now or, when it is not asleep, as soon as it goes to sleep. Several calls meanwhile
    /// are one.
    pub fn wake(&self) {
        // Full after 2^64 calls: it will wake anyway.
        let _full = self.0.write(1);
    }
}

/// Sleeps until woken.
#[derive(Debug)]
pub struct Sleeper(Arc<EventFd>);

impl Sleeper {
    /// A sleeper that nobody has woken; an error when no file can be opened any more.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self(Arc::new(EventFd::from_value_and_flags(0, flags)?)))
    }

    /// A waker of this sleeper.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker(Arc::clone(&self.0))
    }

    /// Sleeps for `most`, until woken or until `changes` is readable, but never for less than `least`: what comes in a
    /// burst is one awakening. Whoever owns `changes` reads it empty. Tells whether a waker has called.
    pub fn sleep(&self, least: Duration, most: Duration, changes: Option<BorrowedFd<'_>>) -> bool {
        let began = Instant::now();
        let mut fds = vec![PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        fds.extend(changes.map(|changes| PollFd::new(changes, PollFlags::POLLIN)));
        let timeout = PollTimeout::try_from(most.max(least)).unwrap_or(PollTimeout::MAX);
        // A wait that ends by its time, by a call, or by a signal is the same here.
        let _ready_or_not = poll(&mut fds, timeout);
        thread::sleep(least.saturating_sub(began.elapsed()));
        // What came during the burst is seen by the round that follows.
        self.0.read().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// Exercises a call before the sleep and one during it, so that neither is lost.
    #[test]
    fn calls_are_not_lost() {
        let sleeper = Sleeper::new().unwrap();
        let began = Instant::now();
        sleeper.waker().wake();
        sleeper.sleep(Duration::ZERO, LONG, None);
        let waker = sleeper.waker();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            waker.wake();
        });
        sleeper.sleep(Duration::ZERO, LONG, None);
        other.join().unwrap();
        assert!(began.elapsed() >= Duration::from_millis(50) && began.elapsed() < LONG);
    }

    /// Exercises a burst of calls, so that it costs one round and no spinning.
    #[test]
    fn a_burst_is_one_awakening() {
        let sleeper = Sleeper::new().unwrap();
        for _ in 0..1000 {
            sleeper.waker().wake();
        }
        let began = Instant::now();
        sleeper.sleep(Duration::from_millis(50), LONG, None);
        assert!(began.elapsed() >= Duration::from_millis(50) && began.elapsed() < LONG);
        sleeper.sleep(Duration::ZERO, Duration::from_millis(50), None);
        assert!(began.elapsed() >= Duration::from_millis(100), "the burst woke twice");
    }

    /// Exercises a descriptor that becomes readable, so that it ends a sleep as a call does.
    #[test]
    fn a_descriptor_wakes() {
        let (sleeper, other) = (Sleeper::new().unwrap(), Sleeper::new().unwrap());
        let began = Instant::now();
        other.waker().wake();
        sleeper.sleep(Duration::ZERO, LONG, Some(other.0.as_fd()));
        assert!(began.elapsed() < LONG);
    }

    /// Exercises a sleeper without wakers, so that it does not spin.
    #[test]
    fn without_wakers_it_sleeps() {
        let sleeper = Sleeper::new().unwrap();
        let began = Instant::now();
        sleeper.sleep(Duration::ZERO, Duration::from_millis(30), None);
        assert!(began.elapsed() >= Duration::from_millis(30));
    }
}
