//! When does a TCP connection open and close?

use aya_ebpf::{
    macros::{btf_tracepoint, kprobe},
    programs::{BtfTracePointContext, ProbeContext},
};

use crate::{
    counters::{count, lost},
    layout::offset,
    mem::{Mem, Probed, Typed},
    owner,
};

const IPPROTO_TCP: u16 = 6;

/// States of include/net/tcp_states.h.
const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
const SYN_RECV: u8 = 3;
const CLOSE: u8 = 7;
const LISTEN: u8 = 10;

/// `void tcp_set_state(struct sock *sk, int state)`, net/ipv4/tcp.c, 5.10 to 6.18. Entered before the state
/// is stored.
#[kprobe]
fn kprobe_tcp_set_state(ctx: ProbeContext) -> u32 {
    let (Some(sk), Some(new)) = (ctx.arg::<*const u8>(0), ctx.arg::<i32>(1)) else {
        return 0;
    };
    match Probed::read::<u8>(sk, offset!(sk_state)) {
        Some(old) => state_change::<Probed>(sk, old, new as u8),
        None => lost(|losses| losses.kernel_read += 1),
    }
    0
}

/// `inet_sock_set_state(const struct sock *sk, const int oldstate, const int newstate)`,
/// include/trace/events/sock.h, 4.16 to 6.18. Fires before the state is stored, also for DCCP, SCTP and MPTCP.
#[btf_tracepoint(function = "inet_sock_set_state")]
fn btf_inet_sock_set_state(ctx: BtfTracePointContext) -> i32 {
    let sk: *const u8 = ctx.arg(0);
    let old: i32 = ctx.arg(1);
    let new: i32 = ctx.arg(2);
    if Typed::read::<u16>(sk, offset!(sk_protocol)) == Some(IPPROTO_TCP) {
        state_change::<Typed>(sk, old as u8, new as u8);
    }
    0
}

#[inline(always)]
fn state_change<M: Mem>(sk: *const u8, old: u8, new: u8) {
    let opened = new == ESTABLISHED;
    // A connection that never was established has no close to count.
    let closed = new == CLOSE && old != SYN_SENT && old != SYN_RECV && old != LISTEN && old != CLOSE;
    if !opened && !closed {
        return;
    }
    let Some(slot) = owner::of_socket(sk, old, owner::socket_netns::<M>(sk)) else {
        return;
    };
    count(slot, |counters| {
        if opened {
            counters.opened += 1;
        } else {
            counters.closed += 1;
        }
    });
}
