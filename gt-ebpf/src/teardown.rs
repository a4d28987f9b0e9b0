//! How does an established connection begin to end, and was a request in flight?
//!
//! Judged once, at the first event; what follows refers to it.

use aya_ebpf::helpers::bpf_jiffies64;
use gt_common::{
    connection::{ADOPTED, Connection, Evidence, How, Lane, Moment, Protocol, READ, judge},
    event::Kind,
};

use crate::{
    connections::facts,
    cuts, event,
    layout::{limits, offset},
    mem::{Mem, Probed},
};

/// Judges the first teardown of a connection; later ones change nothing. `Pending` is judged now and told
/// later, when it is known what it was.
#[inline(always)]
pub(crate) fn teardown(sk: *const u8, connection: &mut Connection, how: How, netns: u32, state: u8) {
    if connection.how != How::None as u8 {
        return;
    }
    let moment = moment(sk, connection, how);
    connection.hc = facts(connection.pod).hc;
    connection.how = how as u8;
    // An adopted connection that has not been read from since may be anywhere in a request.
    let protocol = if connection.flags & (ADOPTED | READ) == ADOPTED {
        Protocol::Unknown as u8
    } else {
        connection.protocol
    };
    // An abort is judged as what it most likely is: an RST of the pod's.
    let judged_as = if how as u8 == How::Pending as u8 { How::RstSent } else { how };
    let (phase, evidence) = judge(judged_as as u8, protocol, &moment, &limits());
    connection.phase = phase as u8;
    // Only inbound user traffic has requests of users.
    connection.evidence =
        if connection.lane == Lane::Data as u8 { evidence as u8 } else { Evidence::None as u8 };
    if how as u8 != How::Pending as u8 {
        cuts::teardown(connection);
    }
    event::on_connection(Kind::Teardown, how as u8, netns, sk, state, connection, Some(&moment));
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
fn moment(sk: *const u8, connection: &Connection, how: How) -> Moment {
    let read = |offset: u32| Probed::read::<u32>(sk, offset).unwrap_or(0);
    let copied = read(offset!(tcp_copied_seq));
    let mut unread = read(offset!(tcp_rcv_nxt)).wrapping_sub(copied);
    // A FIN takes a sequence number; it has been counted in before the state changes (tcp_queue_rcv, tcp_fin).
    if how as u8 == How::FinReceived as u8 {
        unread = unread.wrapping_sub(1);
    }
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
    }
}

/// A difference of sequence numbers or jiffies that must not be negative.
#[inline(always)]
fn positive(difference: u32) -> u32 {
    if (difference as i32) < 0 { 0 } else { difference }
}
