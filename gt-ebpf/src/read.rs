//! When does the application read from a connection?
//!
//! Each read notes how far the application has read and written. A write needs no hook of its own: whether it
//! wrote since the last read is the difference in `write_seq`, and when is `lsndtime`. So sendfile, splice,
//! io_uring and writes that fail cannot fool the order. A peek does not move `copied_seq`, so it is no read.

use aya_ebpf::{
    helpers::bpf_jiffies64,
    macros::{btf_tracepoint, kprobe},
    programs::{BtfTracePointContext, ProbeContext},
};
use gt_common::connection::{Lane, Protocol, READ};

use crate::{
    connections,
    layout::offset,
    mem::{Mem, Probed, Typed},
    payload,
};

/// `void tcp_rcv_space_adjust(struct sock *sk)`, net/ipv4/tcp_input.c, 5.10 to 6.18: called by every way of
/// reading after bytes were copied, and before the packet they came from is freed.
#[kprobe]
fn kprobe_tcp_rcv_space_adjust(ctx: ProbeContext) -> u32 {
    if let Some(sk) = ctx.arg::<*const u8>(0) {
        read::<Probed>(sk);
    }
    0
}

/// `tcp_rcv_space_adjust(struct sock *sk)`, include/trace/events/tcp.h, 4.15 to 6.18: first line of that
/// function.
#[btf_tracepoint(function = "tcp_rcv_space_adjust")]
fn btf_tcp_rcv_space_adjust(ctx: BtfTracePointContext) -> i32 {
    read::<Typed>(ctx.arg(0));
    0
}

#[inline(always)]
fn read<M: Mem>(sk: *const u8) {
    let Some(connection) = connections::find::<M>(sk) else { return };
    let tcp = M::tcp(sk);
    if tcp.is_null() {
        return;
    }
    // What is spoken matters only where requests come in.
    if connection.lane <= Lane::Admin as u8 {
        if connection.protocol == Protocol::Unread as u8 {
            connection.protocol = payload::protocol() as u8;
        } else if connection.protocol == Protocol::Unseen as u8
            && payload::protocol() as u8 == Protocol::Http1 as u8
        {
            // A read that begins with a request line; nothing else begins like that.
            connection.protocol = Protocol::Http1 as u8;
        }
    }
    let copied = M::get::<u32>(tcp, offset!(tcp_copied_seq));
    if copied == connection.read_copied {
        return;
    }
    connection.read_copied = copied;
    connection.read_written = M::get::<u32>(tcp, offset!(tcp_write_seq));
    connection.read_jiffies = (unsafe { bpf_jiffies64() }) as u32;
    connection.flags |= READ;
}
