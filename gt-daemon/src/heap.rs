//! What start-up leaves behind in the heap. The kernel's types alone are tens of megabytes while they are read, and the C
//! library keeps what was freed between things that live on.
#![expect(unsafe_code, reason = "malloc_trim of the C library: no pointer goes in or comes out")]

use std::{panic::resume_unwind, thread};

use nix::libc::malloc_trim;

/// Does work that makes much and keeps little on a thread of its own, to which the C library gives an arena of its own
/// (mallopt(3), `M_ARENA_MAX`): what lives on elsewhere does not lie between.
pub fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

/// Gives back to the kernel whatever is free in all arenas (malloc_trim(3)).
pub fn release() {
    // SAFETY: it touches memory only that the allocator itself holds free, under the allocator's locks.
    let _whether_there_was_any = unsafe { malloc_trim(0) };
}
