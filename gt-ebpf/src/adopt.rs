//! Which connections are there already? An iterator over the TCP sockets of one network namespace, which the
//! daemon runs inside that namespace: after it has attached, and again and again to check the table.

use aya_ebpf::{
    EbpfContext,
    cty::c_void,
    macros::map,
    maps::{Array, LruHashMap},
};
use gt_common::connection::{How, listen_key};

use crate::{
    connections::{self, Direction},
    layout::offset,
    mem::{Mem, Probed, get},
    owner,
    tcp_state::{CLOSE_WAIT, CLOSING, ESTABLISHED, FIN_WAIT1, FIN_WAIT2, LAST_ACK, LISTEN},
};

/// Number of the pass that is running; written by the daemon.
#[map]
static PASS: Array<u32> = Array::with_max_entries(1, 0);

/// Ports somebody listens on, by namespace: an established connection on one of them was accepted. The
/// iterator shows listening sockets first (`tcp_seek_last_pos`, net/ipv4/tcp_ipv4.c).
#[map]
static LISTENING: LruHashMap<u64, u8> = LruHashMap::with_max_entries(8192, 0);

/// `struct bpf_iter__tcp { struct bpf_iter_meta *meta; struct sock_common *sk_common; uid_t uid; }`,
/// net/ipv4/tcp_ipv4.c, 5.9 to 6.18.
struct IterContext(*mut c_void);

impl EbpfContext for IterContext {
    fn as_ptr(&self) -> *mut c_void {
        self.0
    }
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/tcp")]
fn iter_tcp(context: *mut c_void) -> i32 {
    let context = IterContext(context);
    let sk = unsafe { *context.as_ptr().cast::<*const u8>().add(1) };
    if !sk.is_null() {
        visit(sk);
    }
    0
}

#[inline(always)]
fn visit(sk: *const u8) {
    let Some(state) = Probed::read::<u8>(sk, offset!(sk_state)) else { return };
    let netns = owner::socket_netns::<Probed>(sk);
    let port = get::<u16>(sk, offset!(sk_num));
    if state == LISTEN {
        let _an_old_entry_may_go = LISTENING.insert(listen_key(netns, port), 1, 0);
        return;
    }
    // Those that are ending had their teardown before; it was not seen, and is not judged.
    let how = match state {
        ESTABLISHED => How::None,
        CLOSE_WAIT | LAST_ACK => How::FinReceived,
        FIN_WAIT1 | FIN_WAIT2 | CLOSING => How::FinSent,
        _ => return,
    };
    let pass = PASS.get(0).copied().unwrap_or(0);
    if let Some(connection) = connections::find::<Probed>(sk) {
        connection.seen = pass;
        return;
    }
    let Some(owner) = owner::of_socket(sk, state, netns) else { return };
    connections::adopt(sk, owner, direction(sk, netns, port), how, pass, netns);
}

/// Who dialled, as far as it can be told afterwards. A listener on the port tells; one that drains has closed
/// it already, and then the ports do: a client's comes from the range the kernel gives out
/// (`ip_local_port_range`, by default from 32768), a server's does not.
#[inline(always)]
fn direction(sk: *const u8, netns: u32, port: u16) -> Direction {
    const GIVEN_OUT: u16 = 32_768;

    if unsafe { LISTENING.get(listen_key(netns, port)) }.is_some() {
        return Direction::Inbound;
    }
    let remote = u16::from_be(get::<u16>(sk, offset!(sk_dport)));
    match (port < GIVEN_OUT, remote < GIVEN_OUT) {
        (true, false) => Direction::Inbound,
        (false, true) => Direction::Outbound,
        _ => Direction::Unknown,
    }
}
