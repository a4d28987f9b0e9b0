//! What start-up leaves behind in the heap. The kernel's types alone are tens of megabytes while they are read, and the C
//! library keeps what was freed between things that live on.
#![expect(unsafe_code, reason = "mallopt and malloc_trim of the C library: no pointer goes in or comes out")]

use std::{panic::resume_unwind, thread};

use nix::libc::{M_MMAP_THRESHOLD, c_int, malloc_trim, mallopt};

/// Keeps what is large out of the heap, so that it goes back to the kernel when it is freed. The C library would move this
/// bound up to the size of the largest thing that was freed (mallopt(3), `M_MMAP_THRESHOLD`): after a scrape of hundreds of
/// pods, to megabytes in each thread's arena.
pub fn keep_small() {
    const LARGE: c_int = 256 * 1024;

    // SAFETY: two numbers go in, and nothing is allocated by other threads yet that could be in its way.
    let _whether_it_is_heeded = unsafe { mallopt(M_MMAP_THRESHOLD, LARGE) };
}

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
