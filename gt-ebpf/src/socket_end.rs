//! When does a socket cease to be? Then its entry ends, and with it all that could refer to it.

use aya_ebpf::{
    macros::{btf_tracepoint, kprobe},
    programs::{BtfTracePointContext, ProbeContext},
};
use gt_common::connection::{How, Lane};

use crate::{
    connections,
    counters::lost,
    mem::{Mem, Probed, Typed},
    teardown,
};

/// `void tcp_v4_destroy_sock(struct sock *sk)`, net/ipv4/tcp_ipv4.c, 5.10 to 6.18: also for IPv6 sockets.
#[kprobe]
fn kprobe_tcp_v4_destroy_sock(ctx: ProbeContext) -> u32 {
    if let Some(sk) = ctx.arg::<*const u8>(0) {
        socket_end::<Probed>(sk);
    }
    0
}

/// `tcp_destroy_sock(struct sock *sk)`, include/trace/events/tcp.h, 4.16 to 6.18: first line of that function.
#[btf_tracepoint(function = "tcp_destroy_sock")]
fn btf_tcp_destroy_sock(ctx: BtfTracePointContext) -> i32 {
    socket_end::<Typed>(ctx.arg(0));
    0
}

#[inline(always)]
fn socket_end<M: Mem>(sk: *const u8) {
    let Some(connection) = connections::find::<M>(sk) else { return };
    // No RST came after the abort: the kernel gave up by itself.
    teardown::settle(connection, How::Timeout);
    if connection.how == How::None as u8 && connection.lane == Lane::Data as u8 {
        // The kernel skips a program that it has interrupted on the same CPU.
        lost(|losses| &mut losses.unjudged);
    }
    connections::leave(connection);
    connections::close(connection);
    connections::end(sk);
}
