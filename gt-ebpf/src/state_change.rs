//! When does a TCP connection open, begin to end, and close?

use aya_ebpf::{
    macros::{btf_tracepoint, kprobe},
    programs::{BtfTracePointContext, ProbeContext},
};
use gt_common::{
    connection::{How, LEFT},
    event::Kind,
};

use crate::{
    connections::{self, Direction},
    counters::lost,
    event::{self, About},
    layout::offset,
    mem::{Mem, Probed, Typed},
    owner,
    tcp_state::{CLOSE, CLOSE_WAIT, CLOSING, ESTABLISHED, LAST_ACK, SYN_RECV, SYN_SENT},
    teardown,
};

const IPPROTO_TCP: u16 = 6;

/// `void tcp_set_state(struct sock *sk, int state)`, net/ipv4/tcp.c, 5.10 to 6.18. Entered before the state
/// is stored.
#[kprobe]
fn kprobe_tcp_set_state(ctx: ProbeContext) -> u32 {
    let (Some(sk), Some(new)) = (ctx.arg::<*const u8>(0), ctx.arg::<i32>(1)) else {
        return 0;
    };
    match Probed::read::<u8>(sk, offset!(sk_state)) {
        Some(old) => state_change::<Probed>(sk, old, new as u8),
        None => lost(|losses| &mut losses.kernel_read),
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
    if new == ESTABLISHED {
        if old != SYN_SENT && old != SYN_RECV {
            return;
        }
        let netns = owner::socket_netns::<M>(sk);
        let Some(owner) = owner::of_socket(sk, old, netns) else { return };
        let tcp = M::tcp(sk);
        if tcp.is_null() {
            return;
        }
        // Only a listener's child, or a simultaneous open, comes from SYN_RECV.
        let direction = if old == SYN_RECV { Direction::Inbound } else { Direction::Outbound };
        if !connections::open::<M>(sk, tcp, owner, direction, netns) {
            return;
        }
    } else if old == SYN_SENT || old == SYN_RECV || old == CLOSE || old > LAST_ACK && old != CLOSING {
        // The states before ESTABLISHED, and LISTEN, have no entry to look for.
        return;
    }
    let Some(connection) = connections::find::<M>(sk) else { return };
    // The kernel skips a program that it has interrupted on the same CPU: a later change makes up for it.
    let leaves = new != ESTABLISHED && connection.flags & LEFT == 0;
    if leaves {
        connections::leave(connection);
    }
    if new == CLOSE {
        connections::close(connection);
    }
    // Teardowns are events always, other changes only while somebody wants them.
    if !leaves && connections::facts(connection.pod()).interest != 1 {
        return;
    }
    let tcp = M::tcp(sk);
    if tcp.is_null() {
        return;
    }
    let mut moment = teardown::nothing();
    let mut first = false;
    let mut time_ns = 0;
    if leaves {
        let how = match (old, new) {
            (ESTABLISHED, CLOSE_WAIT) | (CLOSE_WAIT | LAST_ACK, _) => How::FinReceived,
            // A received RST has been judged before; else an RST follows, or the kernel gave up.
            (ESTABLISHED, CLOSE) => How::Pending,
            _ => How::FinSent,
        };
        first = teardown::teardown::<M>(tcp, connection, how, &mut moment);
        if old == ESTABLISHED && new == CLOSE_WAIT {
            time_ns = connections::packet_time::<M>(tcp);
        }
    }
    if !first && connections::facts(connection.pod()).interest != 1 {
        return;
    }
    let about = About {
        kind: if first { Kind::Teardown } else { Kind::State },
        detail: if first { connection.how } else { new },
        slot: connection.slot(),
        netns: owner::socket_netns::<M>(sk),
        state: old,
        lane: connection.lane,
    };
    let time_ns = if time_ns == 0 { event::now() } else { time_ns };
    event::on_connection::<M>(&about, (sk, tcp), connection, &moment, first, time_ns);
}
