//! gt's kernel programs, one file per question asked of the kernel, each with a kprobe and a BTF tracepoint.
//!
//! - [`state_change`]: when does a TCP connection open and close?
//! - [`rst_sent`]: does this host send an RST, and why?
//! - [`rst_received`]: does the kernel act on an RST it received?
//!
//! Below them: [`layout`] (offsets and settings), [`mem`] (two ways to read kernel memory), [`owner`] (whose
//! socket is it), [`counters`] and [`event`] (what the daemon gets to see), [`packet`] (headers of an RST's
//! cause). The daemon decides which programs are loaded; the others cost nothing.
#![no_std]
#![no_main]

mod counters;
mod event;
mod layout;
mod mem;
mod owner;
mod packet;
mod rst_received;
mod rst_sent;
mod state_change;

/// Some helpers are GPL only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}
