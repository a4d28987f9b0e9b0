//! gt's kernel programs, one file per question asked of the kernel, each with a kprobe and a BTF tracepoint.
//!
//! - [`state_change`]: when does a TCP connection open, begin to end, and close?
//! - [`read`]: when does the application read?
//! - [`rst_sent`]: does this host send an RST, and why?
//! - [`rst_received`]: does the kernel act on an RST it received?
//! - [`socket_end`]: when does a socket cease to be?
//! - [`adopt`]: which connections are there already? (an iterator, run by the daemon)
//!
//! Below them: [`layout`] (offsets and settings), [`mem`] (two ways to read kernel memory), [`owner`] (whose
//! socket is it), [`connections`] (the table), [`places`] (where its entries lie), [`teardown`] (the judgement),
//! [`counters`], [`cuts`] and [`event`] (what the daemon gets to see), [`packet`] and [`payload`] (headers and
//! first bytes of packets).
//! The daemon decides which programs are loaded; the others cost nothing.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod adopt;
mod atomic;
mod connections;
mod counters;
mod cuts;
mod empty;
mod event;
mod layout;
mod mem;
mod owner;
mod packet;
mod payload;
mod places;
mod read;
mod rst_received;
mod rst_sent;
mod socket_end;
mod state_change;
mod tcp_state;
mod teardown;

/// Some helpers are GPL only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[cfg(not(test))]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}
