//! Does the kernel act on an RST it received?
//!
//! An RST outside the window, for a request socket or for TIME_WAIT never gets here: it is on the wire, and
//! the kernel does not reset a connection for it (docs/limitations.md).

use aya_ebpf::{
    helpers::bpf_ktime_get_ns,
    macros::{btf_tracepoint, kprobe, map},
    maps::PerCpuArray,
    programs::{BtfTracePointContext, ProbeContext},
};
use gt_common::{
    connection::{How, Lane},
    counters::RstReceived,
    event::Kind,
    owner::Slot,
};

use crate::{
    connections::{self, Direction},
    counters::{count, lost, uncount},
    cuts,
    event::{self, About},
    layout::{offset, reset_has_packet},
    mem::{Mem, Probed, Typed, get},
    owner, packet,
    tcp_state::{CLOSE, ESTABLISHED, FIN_WAIT1, FIN_WAIT2, SYN_SENT},
    teardown,
};

/// Set in `sock.sk_shutdown` when the application no longer reads (include/net/sock.h).
const RCV_SHUTDOWN: u8 = 1;

/// A reset that may turn out to be none, with where it was counted.
#[derive(Clone, Copy)]
struct Doubtful {
    socket: u64,
    time_ns: u64,
    slot: Slot,
    netns: u32,
    pending: u32,
    lane: u8,
}

#[map]
static DOUBTFUL: PerCpuArray<Doubtful> = PerCpuArray::with_max_entries(1, 0);

/// `void tcp_reset(struct sock *sk[, struct sk_buff *skb])`, net/ipv4/tcp_input.c, 5.10 (one argument) to
/// 6.18. Also called for data that reaches a socket which no longer reads (`tcp_rcv_state_process`): then the
/// packet is no RST, and nothing was received that resets.
#[kprobe]
fn kprobe_tcp_reset(ctx: ProbeContext) -> u32 {
    let Some(sk) = ctx.arg::<*const u8>(0) else { return 0 };
    if !reset_has_packet() {
        rst_received::<Probed>(sk, true);
    } else if let Some(skb) = ctx.arg::<*const u8>(1)
        && packet::is_rst(skb) != Some(false)
    {
        rst_received::<Probed>(sk, false);
    }
    0
}

/// `tcp_receive_reset(struct sock *sk)`, include/trace/events/tcp.h, 4.16 to 6.18; first line of `tcp_reset`,
/// without the packet.
#[btf_tracepoint(function = "tcp_receive_reset")]
fn btf_tcp_receive_reset(ctx: BtfTracePointContext) -> i32 {
    rst_received::<Typed>(ctx.arg(0), true);
    0
}

/// Called when an RST answers a packet for this socket: if the kernel has just reset the socket on this CPU,
/// that was for the same packet, and the packet was no RST, since those are never answered.
#[inline(always)]
pub(crate) fn was_none(sk: *const u8) {
    const SAME_PACKET_NS: u64 = 1_000_000;

    let Some(doubtful) = DOUBTFUL.get_ptr_mut(0).map(|doubtful| unsafe { &mut *doubtful }) else { return };
    if doubtful.pending == 0 || doubtful.socket != sk as u64 {
        return;
    }
    doubtful.pending = 0;
    if unsafe { bpf_ktime_get_ns() }.wrapping_sub(doubtful.time_ns) > SAME_PACKET_NS {
        return;
    }
    uncount(doubtful.slot, doubtful.lane, |counters| &mut counters.rst_received[0]);
    event::on_socket(
        &About {
            kind: Kind::NoRstReceived,
            detail: RstReceived::Reset as u8,
            slot: doubtful.slot,
            netns: doubtful.netns,
            state: CLOSE,
            lane: doubtful.lane,
        },
        sk,
    );
}

/// Remembers a reset that may turn out to be none; whether it may.
#[inline(always)]
fn doubt(sk: *const u8, state: u8, slot: Slot, netns: u32, lane: u8) -> bool {
    let reads_no_more =
        (state == FIN_WAIT1 || state == FIN_WAIT2) && get::<u8>(sk, offset!(sk_shutdown)) & RCV_SHUTDOWN != 0;
    if reads_no_more && let Some(doubtful) = DOUBTFUL.get_ptr_mut(0).map(|doubtful| unsafe { &mut *doubtful })
    {
        doubtful.pending = 1;
        doubtful.socket = sk as u64;
        doubtful.time_ns = unsafe { bpf_ktime_get_ns() };
        doubtful.slot = slot;
        doubtful.netns = netns;
        doubtful.lane = lane;
    }
    reads_no_more
}

#[inline(always)]
fn rst_received<M: Mem>(sk: *const u8, may_be_none: bool) {
    let Some(state) = M::read::<u8>(sk, offset!(sk_state)) else {
        lost(|losses| &mut losses.kernel_read);
        return;
    };
    let detail = RstReceived::Reset as u8;
    if let Some(connection) = connections::find::<M>(sk) {
        let tcp = M::tcp(sk);
        if tcp.is_null() {
            return;
        }
        let netns = owner::socket_netns::<M>(sk);
        count(connection.slot(), connection.lane, |counters| &mut counters.rst_received[0]);
        let mut moment = teardown::nothing();
        let first =
            state == ESTABLISHED && teardown::teardown::<M>(tcp, connection, How::RstReceived, &mut moment);
        // In doubt, the RST is not held against a request: docs/limitations.md.
        if !may_be_none || !doubt(sk, state, connection.slot(), netns, connection.lane) {
            cuts::reset(connection, true);
        }
        let about = About {
            kind: Kind::RstReceived,
            detail,
            slot: connection.slot(),
            netns,
            state,
            lane: connection.lane,
        };
        event::on_connection::<M>(
            &about,
            (sk, tcp),
            connection,
            &moment,
            first,
            connections::packet_time::<M>(tcp),
        );
        return;
    }
    // A refused connection never was in the table; one that is missing there found it full.
    let netns = owner::socket_netns::<M>(sk);
    let Some(owner) = owner::of_socket(sk, state, netns) else { return };
    let refused = state == SYN_SENT;
    let Some(lane) = connections::lane::<Probed>(sk, owner.pod, Direction::Outbound) else { return };
    let lane = if refused || lane == Lane::Loopback { lane } else { Lane::Unknown } as u8;
    count(owner.slot, lane, |counters| {
        let [reset, refused_ones] = &mut counters.rst_received;
        if refused { refused_ones } else { reset }
    });
    if may_be_none {
        let _counted_either_way = doubt(sk, state, owner.slot, netns, lane);
    }
    let detail = if refused { RstReceived::Refused as u8 } else { detail };
    event::on_socket(&About { kind: Kind::RstReceived, detail, slot: owner.slot, netns, state, lane }, sk);
}
