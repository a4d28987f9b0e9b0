//! Does the kernel act on an RST it received?
//!
//! An RST outside the window, for a request socket or for TIME_WAIT never gets here: it is on the wire, and
//! the kernel does not reset a connection for it (docs/limitations.md).

use aya_ebpf::{
    macros::{btf_tracepoint, kprobe},
    programs::{BtfTracePointContext, ProbeContext},
};
use gt_common::{counters::RstReceived, event::Kind};

use crate::{
    counters::{count, lost},
    event,
    layout::offset,
    mem::{Mem, Probed, Typed},
    owner,
};

const SYN_SENT: u8 = 2;

/// `void tcp_reset(struct sock *sk[, struct sk_buff *skb])`, net/ipv4/tcp_input.c, 5.10 (one argument) to
/// 6.18.
#[kprobe]
fn kprobe_tcp_reset(ctx: ProbeContext) -> u32 {
    if let Some(sk) = ctx.arg::<*const u8>(0) {
        rst_received::<Probed>(sk);
    }
    0
}

/// `tcp_receive_reset(struct sock *sk)`, include/trace/events/tcp.h, 4.16 to 6.18; first line of `tcp_reset`.
#[btf_tracepoint(function = "tcp_receive_reset")]
fn btf_tcp_receive_reset(ctx: BtfTracePointContext) -> i32 {
    rst_received::<Typed>(ctx.arg(0));
    0
}

#[inline(always)]
fn rst_received<M: Mem>(sk: *const u8) {
    let Some(state) = M::read::<u8>(sk, offset!(sk_state)) else {
        lost(|losses| losses.kernel_read += 1);
        return;
    };
    let netns = owner::socket_netns::<M>(sk);
    let Some(slot) = owner::of_socket(sk, state, netns) else {
        return;
    };
    let how = if state == SYN_SENT { RstReceived::Refused } else { RstReceived::Reset };
    count(slot, |counters| match how {
        RstReceived::Reset => counters.rst_received[0] += 1,
        RstReceived::Refused => counters.rst_received[1] += 1,
    });
    event::on_socket(Kind::RstReceived, how as u8, slot, netns, sk, state);
}
