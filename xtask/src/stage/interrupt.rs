//! Ctrl-C, SIGTERM and SIGHUP as a flag that every wait looks at, so that guards drop and clean up.

use std::{
    ffi::c_int,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// From here on the signals only raise the flag. Children start with the default actions again, since
/// `exec` resets handlers.
pub fn install() -> Result<()> {
    let action = SigAction::new(SigHandler::Handler(note), SaFlags::SA_RESTART, SigSet::empty());
    for signal in SIGNALS {
        #[expect(unsafe_code, reason = "nix cannot know what a handler does")]
        // SAFETY: the handler stores into an atomic and does nothing else, which is async-signal-safe.
        unsafe { sigaction(signal, &action) }.with_context(|| format!("cannot handle {signal}"))?;
    }
    Ok(())
}

/// An error once a signal has come.
pub fn check() -> Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!(
            "interrupted by a signal before the end: nothing is proved, and what was made for it is removed"
        );
    }
    Ok(())
}

/// Asks `probe` until it gives a value, at most `limit`; ends early on its error or on a signal.
pub fn wait_for<T>(what: &str, limit: Duration, mut probe: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        check()?;
        if let Some(value) = probe()? {
            return Ok(value);
        }
        if Instant::now() > deadline {
            bail!("waited {} s for {what}, in vain", limit.as_secs_f32());
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Sleeps; ends early on a signal.
pub fn pause(length: Duration) -> Result<()> {
    let until = Instant::now() + length;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        check()?;
        thread::sleep(left.min(Duration::from_millis(20)));
    }
    check()
}
