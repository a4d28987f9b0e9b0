//! Whose socket is it? The socket's own cgroup or an ancestor of it, then its network namespace (never the
//! host's). Never the current task: these hooks run in softirq, on whatever was interrupted.

use aya_ebpf::{
    macros::map,
    maps::{Array, HashMap},
};
use gt_common::{
    layout::ABSENT,
    owner::{CGROUP_LEVELS, DEFAULT_SLOTS, NAMESPACE_PLACES, Owner, namespace_place},
};

use crate::{
    layout::{cgroup_owner, host_netns, offset},
    mem::{Mem, Probed, get},
    tcp_state::{NEW_SYN_RECV, TIME_WAIT},
};

#[map]
static CGROUP_OWNER: HashMap<u64, Owner> = HashMap::with_max_entries(4 * DEFAULT_SLOTS, 0);

#[map]
static NETNS_OWNER: HashMap<u32, Owner> = HashMap::with_max_entries(DEFAULT_SLOTS, 0);

/// Zero where no namespace of this place was ever an owner's: an array is looked up in less time than a hash, and most
/// namespaces of a node are nobody's. Set before the owner is there, and never taken back.
#[map]
static OWNED: Array<u32> = Array::with_max_entries(NAMESPACE_PLACES, 0);

/// Whether more than `sock_common` may be read from a socket in this state: TIME_WAIT and request sockets are
/// nothing more.
#[inline(always)]
pub(crate) fn is_full_socket(state: u8) -> bool {
    state != TIME_WAIT && state != NEW_SYN_RECV
}

#[inline(always)]
pub(crate) fn is_time_wait(state: u8) -> bool {
    state == TIME_WAIT
}

/// Inode number of the namespace of a `struct net *` that lies at `offset` in `base`; 0 when unknown.
#[inline(always)]
fn netns<M: Mem>(base: *const u8, offset: u32) -> u32 {
    if offset == ABSENT {
        // Without CONFIG_NET_NS there is only the host's.
        return host_netns();
    }
    let Some(net) = M::read::<*const u8>(base, offset) else {
        return 0;
    };
    if net.is_null() {
        return 0;
    }
    M::read::<u32>(net, offset!(net_inum)).unwrap_or(0)
}

/// Namespace of a socket.
#[inline(always)]
pub(crate) fn socket_netns<M: Mem>(sk: *const u8) -> u32 {
    netns::<M>(sk, offset!(sk_net))
}

/// Namespace of the device a packet came in by.
#[inline(always)]
pub(crate) fn packet_netns(skb: *const u8) -> u32 {
    match Probed::read::<*const u8>(skb, offset!(skb_dev)) {
        Some(dev) if !dev.is_null() => netns::<Probed>(dev, offset!(dev_net)),
        _ => 0,
    }
}

/// The owner a namespace belongs to; the host's belongs to nobody.
#[inline(always)]
pub(crate) fn by_netns(inum: u32) -> Option<&'static Owner> {
    if inum == 0 || inum == host_netns() {
        return None;
    }
    if OWNED.get(namespace_place(inum)) == Some(&0) {
        return None;
    }
    unsafe { NETNS_OWNER.get(inum) }
}

/// The owner of a socket whose state and namespace are known.
#[inline(always)]
pub(crate) fn of_socket(sk: *const u8, state: u8, inum: u32) -> Option<&'static Owner> {
    if !cgroup_owner() || !is_full_socket(state) || offset!(sk_cgroup) == ABSENT {
        return by_netns(inum);
    }
    // In 5.10 to 5.14 this word may hold class ids instead of a pointer; bit 0 tells (sock_cgroup_data).
    let cgroup = get::<u64>(sk, offset!(sk_cgroup));
    if cgroup == 0 || cgroup & 1 == 1 {
        return by_netns(inum);
    }
    let cgroup = cgroup as *const u8;
    if let Some(owner) = by_cgroup(cgroup) {
        return Some(owner);
    }
    let namesake = by_netns(inum);
    // The walk is dear: it is spared the sockets of namespaces that are nobody's. In a watched namespace it may
    // find the container, in the host's a pod of the host's network.
    if namesake.is_some() || inum == host_netns() {
        return by_ancestor(cgroup).or(namesake);
    }
    None
}

#[inline(always)]
fn by_cgroup(cgroup: *const u8) -> Option<&'static Owner> {
    let kn = Probed::read::<*const u8>(cgroup, offset!(cgroup_kn))?;
    let id = Probed::read::<u64>(kn, offset!(kn_id))?;
    unsafe { CGROUP_OWNER.get(id) }
}

/// A process may live in a scope below its container's that the daemon has not seen yet.
#[inline(always)]
fn by_ancestor(mut cgroup: *const u8) -> Option<&'static Owner> {
    for _ in 0..CGROUP_LEVELS {
        // The parent is known by its embedded cgroup_subsys_state.
        let css = Probed::read::<u64>(cgroup, offset!(cgroup_parent))?;
        if css == 0 {
            return None;
        }
        cgroup = css.wrapping_sub(u64::from(offset!(cgroup_self))) as *const u8;
        if let Some(owner) = by_cgroup(cgroup) {
            return Some(owner);
        }
    }
    None
}
