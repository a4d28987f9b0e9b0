//! Does this host send an RST, and why?
//!
//! Entering `tcp_v4_send_reset` is not yet an RST sent: the kernel returns early when the packet itself is an
//! RST, and without a socket when the packet was not for a local address. The kprobes ask the same questions.
//! Both backends count the decision to send: a later failure (no memory, no route) is not seen, as in the
//! kernel's own `Tcp: OutRsts`.

use aya_ebpf::{
    macros::{btf_tracepoint, kprobe},
    programs::{BtfTracePointContext, ProbeContext},
};
use aya_log_ebpf::debug;
use gt_common::{counters::RstSent, event::Kind};

use crate::{
    counters::{count, lost},
    event,
    layout::offset,
    mem::{Mem, Probed, Typed},
    owner, packet,
};

/// `void tcp_send_active_reset(struct sock *sk, gfp_t priority[, enum sk_rst_reason reason])`,
/// net/ipv4/tcp_output.c, 5.10 (two arguments) to 6.18.
#[kprobe]
fn kprobe_tcp_send_active_reset(ctx: ProbeContext) -> u32 {
    if let Some(sk) = ctx.arg::<*const u8>(0) {
        from_socket::<Probed>(sk, true);
    }
    0
}

/// `void tcp_v4_send_reset(const struct sock *sk, struct sk_buff *skb[, enum sk_rst_reason reason])`,
/// net/ipv4/tcp_ipv4.c, 5.10 (two arguments) to 6.18. Static, never inlined so far: its address is taken.
#[kprobe]
fn kprobe_tcp_v4_send_reset(ctx: ProbeContext) -> u32 {
    let (Some(sk), Some(skb)) = (ctx.arg::<*const u8>(0), ctx.arg::<*const u8>(1)) else {
        return 0;
    };
    let sends = match packet::is_rst(skb) {
        Some(true) => return 0,
        Some(false) if sk.is_null() => packet::is_local_v4(skb),
        known => known.map(|is_rst| !is_rst),
    };
    answer(&ctx, sk, skb, sends)
}

/// `void tcp_v6_send_reset(const struct sock *sk, struct sk_buff *skb[, enum sk_rst_reason reason])`,
/// net/ipv6/tcp_ipv6.c, 5.10 (two arguments) to 6.18. Static, never inlined so far: its address is taken.
#[kprobe]
fn kprobe_tcp_v6_send_reset(ctx: ProbeContext) -> u32 {
    let (Some(sk), Some(skb)) = (ctx.arg::<*const u8>(0), ctx.arg::<*const u8>(1)) else {
        return 0;
    };
    let sends = match packet::is_rst(skb) {
        Some(true) => return 0,
        Some(false) if sk.is_null() => packet::is_local_v6(skb),
        known => known.map(|is_rst| !is_rst),
    };
    answer(&ctx, sk, skb, sends)
}

/// `tcp_send_reset(const struct sock *sk, const struct sk_buff *skb[, const enum sk_rst_reason reason])`,
/// include/trace/events/tcp.h, 4.16 to 6.18. `skb` is the packet that caused the RST, NULL for an active one.
/// `sk` may be NULL or TIME_WAIT since 6.10; before, the event fires for full sockets only.
#[btf_tracepoint(function = "tcp_send_reset")]
fn btf_tcp_send_reset(ctx: BtfTracePointContext) -> i32 {
    let sk: *const u8 = ctx.arg(0);
    let skb: *const u8 = ctx.arg(1);
    if sk.is_null() {
        if !skb.is_null() {
            from_packet(skb);
        }
    } else {
        from_socket::<Typed>(sk, skb.is_null());
    }
    0
}

/// A kprobe's answer to an incoming segment.
#[inline(always)]
fn answer(ctx: &ProbeContext, sk: *const u8, skb: *const u8, sends: Option<bool>) -> u32 {
    match sends {
        Some(true) if sk.is_null() => from_packet(skb),
        Some(true) => from_socket::<Probed>(sk, false),
        Some(false) => {}
        None => {
            lost(|losses| losses.kernel_read += 1);
            debug!(ctx, "cannot read the packet that a reset would answer");
        }
    }
    0
}

#[inline(always)]
fn from_socket<M: Mem>(sk: *const u8, active: bool) {
    let Some(state) = M::read::<u8>(sk, offset!(sk_state)) else {
        lost(|losses| losses.kernel_read += 1);
        return;
    };
    let netns = owner::socket_netns::<M>(sk);
    let Some(slot) = owner::of_socket(sk, state, netns) else {
        return;
    };
    let why = if active {
        RstSent::Active
    } else if owner::is_time_wait(state) {
        RstSent::TimeWait
    } else {
        RstSent::Reply
    };
    count(slot, |counters| match why {
        RstSent::Active => counters.rst_sent[0] += 1,
        RstSent::Reply => counters.rst_sent[1] += 1,
        RstSent::TimeWait => counters.rst_sent[2] += 1,
        RstSent::NoSocket => {}
    });
    event::on_socket(Kind::RstSent, why as u8, slot, netns, sk, state);
}

#[inline(always)]
fn from_packet(skb: *const u8) {
    let netns = owner::packet_netns(skb);
    let Some(slot) = owner::by_netns(netns) else {
        return;
    };
    count(slot, |counters| counters.rst_sent[RstSent::NoSocket as usize] += 1);
    match packet::packet(skb) {
        Some(packet) => event::on_packet(Kind::RstSent, RstSent::NoSocket as u8, slot, netns, &packet),
        None => lost(|losses| losses.kernel_read += 1),
    }
}
