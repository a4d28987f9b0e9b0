//! Does this host send an RST, and why?
//!
//! Entering `tcp_v4_send_reset` is not yet an RST sent: the kernel returns early when the packet itself is an
//! RST, and without a socket when the packet was not for a local address. The kprobes ask the same questions.
//! A failure after the decision to send (no route) is not seen, as in the kernel's own `Tcp: OutRsts`. Where
//! there is no memory for an active RST, the kprobe counts it and the tracepoint does not fire; where a TCP-MD5
//! or TCP-AO key forbids an answer, likewise.

use aya_ebpf::{
    macros::{btf_tracepoint, kprobe},
    programs::{BtfTracePointContext, ProbeContext},
};
use aya_log_ebpf::debug;
use gt_common::{
    connection::{How, Lane},
    counters::RstSent,
    event::{Kind, STATE_NONE},
    owner::Slot,
};

use crate::{
    connections::{self, Direction},
    counters::{count, lost},
    cuts,
    event::{self, About},
    layout::offset,
    mem::{Mem, Probed, Typed},
    owner, packet, rst_received,
    tcp_state::{ESTABLISHED, LISTEN, NEW_SYN_RECV, SYN_RECV, SYN_SENT},
    teardown,
};

/// `void tcp_send_active_reset(struct sock *sk, gfp_t priority[, enum sk_rst_reason reason])`,
/// net/ipv4/tcp_output.c, 5.10 (two arguments) to 6.18.
#[kprobe]
fn kprobe_tcp_send_active_reset(ctx: ProbeContext) -> u32 {
    if let Some(sk) = ctx.arg::<*const u8>(0) {
        from_socket::<Probed>(sk, core::ptr::null());
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
        from_socket::<Typed>(sk, skb);
    }
    0
}

/// A kprobe's answer to an incoming segment.
#[inline(always)]
fn answer(ctx: &ProbeContext, sk: *const u8, skb: *const u8, sends: Option<bool>) -> u32 {
    match sends {
        Some(true) if sk.is_null() => from_packet(skb),
        Some(true) => from_socket::<Probed>(sk, skb),
        Some(false) => {}
        None => {
            lost(|losses| &mut losses.kernel_read);
            debug!(ctx, "cannot read the packet that a reset would answer");
        }
    }
    0
}

/// `answers` is the packet that the RST answers, null for an active one.
#[inline(always)]
fn from_socket<M: Mem>(sk: *const u8, answers: *const u8) {
    let Some(state) = M::read::<u8>(sk, offset!(sk_state)) else {
        lost(|losses| &mut losses.kernel_read);
        return;
    };
    let why = if answers.is_null() {
        RstSent::Active
    } else if owner::is_time_wait(state) {
        RstSent::TimeWait
    } else {
        RstSent::Reply
    };
    let netns = owner::socket_netns::<M>(sk);
    if !answers.is_null() {
        rst_received::was_none(sk);
    }
    if let Some(connection) = connections::find::<M>(sk) {
        let tcp = M::tcp(sk);
        if tcp.is_null() {
            return;
        }
        counted(connection.slot(), connection.lane, why);
        let mut moment = teardown::nothing();
        let first =
            state == ESTABLISHED && teardown::teardown::<M>(tcp, connection, How::RstSent, &mut moment);
        teardown::settle(connection, How::RstSent);
        cuts::reset(connection, false);
        let about = About {
            kind: Kind::RstSent,
            detail: why as u8,
            slot: connection.slot(),
            netns,
            state,
            lane: connection.lane,
        };
        // The tracepoint of an active one comes after its packet (`tcp_send_active_reset`).
        let time_ns = if answers.is_null() { connections::packet_time::<M>(tcp) } else { event::now() };
        event::on_connection::<M>(&about, (sk, tcp), connection, &moment, first, time_ns);
        return;
    }
    let Some(owner) = owner::of_socket(sk, state, netns) else { return };
    let direction = if state == SYN_SENT { Direction::Outbound } else { Direction::Inbound };
    let Some(lane) = connections::lane::<Probed>(sk, owner.pod, direction) else { return };
    let lane = match state {
        LISTEN | SYN_RECV | NEW_SYN_RECV | SYN_SENT => lane,
        // The addresses still tell that nobody outside dialled.
        _ if lane == Lane::Loopback => lane,
        _ => Lane::Unknown,
    } as u8;
    let about = About { kind: Kind::RstSent, detail: why as u8, slot: owner.slot, netns, state, lane };
    // A listener answers for connections it does not have: the packet knows whose.
    if state == LISTEN && !answers.is_null() {
        let packet = packet::packet(answers);
        if packet.as_ref().is_some_and(packet::is_own) {
            return;
        }
        // Its own addresses do not tell who dialled.
        let lane = packet.as_ref().map_or(lane, |packet| connections::packet_lane(owner.pod, packet) as u8);
        counted(owner.slot, lane, why);
        if let Some(packet) = packet {
            event::on_packet(&About { lane, ..about }, &packet);
        }
        return;
    }
    counted(owner.slot, lane, why);
    event::on_socket(&about, sk);
}

#[inline(always)]
fn counted(slot: Slot, lane: u8, why: RstSent) {
    count(slot, lane, |counters| {
        let [active, reply, time_wait, no_socket] = &mut counters.rst_sent;
        match why {
            RstSent::Active => active,
            RstSent::Reply => reply,
            RstSent::TimeWait => time_wait,
            RstSent::NoSocket => no_socket,
        }
    });
}

#[inline(always)]
fn from_packet(skb: *const u8) {
    let netns = owner::packet_netns(skb);
    let Some(owner) = owner::by_netns(netns) else { return };
    match packet::packet(skb) {
        Some(packet) if packet::is_own(&packet) => {}
        Some(packet) => {
            let lane = connections::packet_lane(owner.pod, &packet) as u8;
            counted(owner.slot, lane, RstSent::NoSocket);
            let about = About {
                kind: Kind::RstSent,
                detail: RstSent::NoSocket as u8,
                slot: owner.slot,
                netns,
                state: STATE_NONE,
                lane,
            };
            event::on_packet(&about, &packet);
        }
        None => {
            counted(owner.slot, Lane::Unknown as u8, RstSent::NoSocket);
            lost(|losses| &mut losses.kernel_read);
        }
    }
}
