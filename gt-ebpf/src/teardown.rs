//! How does an established connection begin to end, and was a request in flight?
//!
//! Judged once, at the first event; what follows refers to it.

use aya_ebpf::helpers::{bpf_jiffies64, generated};
use gt_common::connection::{
    ADOPTED, Connection, EXITING, Evidence, How, Lane, Moment, Protocol, READ, judge,
};

use crate::{
    connections::facts,
    cuts,
    layout::{limits, offset},
    mem::{Mem, get, zero},
};

/// No teardown has been looked at.
#[inline(always)]
pub(crate) fn nothing() -> Moment {
    let none = zero();
    Moment {
        unread: none,
        unsent: none,
        unacked: none,
        has_read: none != 0,
        wrote_since_read: none != 0,
        read_to_sent: none,
        since_sent: none,
        since_read: none,
    }
}

/// Judges the first teardown of a connection; whether this was it. Later ones change nothing. `Pending` is
/// judged now and counted later, when it is known what it was.
///
/// The cause stands in the connection and is read back from there: a verifier that sees a constant walks all
/// that follows once for each.
#[inline(always)]
pub(crate) fn teardown<M: Mem>(
    tcp: *const u8,
    connection: &mut Connection,
    how: How,
    moment: &mut Moment,
) -> bool {
    if connection.how != How::None as u8 {
        return false;
    }
    connection.how = how as u8;
    // Both come from a call of the application, or from its end: the current task is whose socket it is.
    if how as u8 == How::FinSent as u8 || how as u8 == How::Pending as u8 {
        connection.flags |= exiting();
    }
    let how = unsafe { core::ptr::read_volatile(&raw const connection.how) };
    *moment = look::<M>(tcp, connection, how);
    connection.hc = facts(connection.pod()).hc;
    let protocol = known_protocol(connection);
    let (phase, evidence) = judge(how, protocol, moment, &limits());
    connection.phase = phase as u8;
    // Only inbound user traffic has requests of users.
    connection.evidence =
        if connection.lane == Lane::Data as u8 { evidence as u8 } else { Evidence::None as u8 };
    if how != How::Pending as u8 {
        cuts::teardown(connection);
    }
    true
}

/// [`EXITING`] when the current task is on its way out (`PF_EXITING`, include/linux/sched.h; set by `do_exit` before
/// it closes files). Without a branch, see [`get`](crate::mem::get).
#[inline(always)]
fn exiting() -> u8 {
    const PF_EXITING: u32 = 4;

    let task = unsafe { generated::bpf_get_current_task() } as *const u8;
    let flags = get::<u32>(task, offset!(task_flags));
    ((flags & PF_EXITING) / PF_EXITING) as u8 * EXITING
}

/// By which protocol a connection is judged: an adopted one that has not been read from since may be anywhere in
/// a request.
#[inline(always)]
fn known_protocol(connection: &Connection) -> u8 {
    if connection.protocol == Protocol::Http1 as u8 && connection.flags & (ADOPTED | READ) == ADOPTED {
        return Protocol::Unseen as u8;
    }
    connection.protocol
}

/// Tells what a pending abort was.
#[inline(always)]
pub(crate) fn settle(connection: &mut Connection, how: How) {
    if connection.how == How::Pending as u8 {
        connection.how = how as u8;
        cuts::teardown(connection);
    }
}

/// Reads what the judgement needs. Under the socket's lock, so the numbers fit together.
#[inline(always)]
fn look<M: Mem>(tcp: *const u8, connection: &Connection, how: u8) -> Moment {
    let read = |offset: u32| M::get::<u32>(tcp, offset);
    let copied = read(offset!(tcp_copied_seq));
    // A FIN takes a sequence number; it has been counted in before the state changes (tcp_queue_rcv, tcp_fin).
    let fin = u32::from(how == How::FinReceived as u8);
    let unread = read(offset!(tcp_rcv_nxt)).wrapping_sub(copied).wrapping_sub(fin);
    let written = read(offset!(tcp_write_seq));
    let sent = read(offset!(tcp_snd_nxt));
    let last_sent = read(offset!(tcp_lsndtime));
    let now = (unsafe { bpf_jiffies64() }) as u32;
    Moment {
        unread: positive(unread),
        unsent: positive(written.wrapping_sub(sent)),
        unacked: positive(sent.wrapping_sub(read(offset!(tcp_snd_una)))),
        has_read: connection.flags & READ != 0,
        wrote_since_read: written != connection.read_written,
        read_to_sent: positive(last_sent.wrapping_sub(connection.read_jiffies)),
        since_sent: positive(now.wrapping_sub(last_sent)),
        since_read: positive(now.wrapping_sub(connection.read_jiffies)),
    }
}

/// A difference of sequence numbers or jiffies that must not be negative. Without a branch, see [`get`].
#[inline(always)]
fn positive(difference: u32) -> u32 {
    difference & !((difference as i32) >> 31) as u32
}
