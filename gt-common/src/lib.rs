//! What the kernel programs and the daemon say to each other.
//!
//! Every type here crosses the border between kernel and user space by its bytes, so each has an
//! explicit layout, no implicit padding, and const assertions on size and offsets beside it. One word, one
//! file: `counters.rs`, `event.rs`, `layout.rs` and `owner.rs` have namesakes in gt-ebpf and gt-daemon.
#![no_std]
#![warn(missing_docs)]

pub mod config;
pub mod connection;
pub mod counters;
pub mod event;
pub mod layout;
pub mod own;
pub mod owner;
pub mod places;

/// Declares that a type may be read from and written to map memory byte by byte.
macro_rules! pod {
    ($type:ty) => {
        #[cfg(feature = "user")]
        #[expect(
            unsafe_code,
            reason = "aya reads map values as bytes; the type is repr(C) without padding, any bit pattern is valid"
        )]
        // SAFETY: repr(C), only integers, no padding: the const assertions beside the type prove its size.
        unsafe impl aya::Pod for $type {}
    };
}
pub(crate) use pod;
