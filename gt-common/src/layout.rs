//! Where the running kernel keeps the fields gt reads.
//!
//! aya's Rust side emits no CO-RE relocations, so no offset is compiled in: the daemon resolves each one
//! from the running kernel's BTF and sets this struct as a read-only global before the programs load. The
//! verifier then sees constants, and a branch for an absent field is dead code to it.

/// Offset of a field that this kernel does not have.
pub const ABSENT: u32 = u32::MAX;

/// Byte offsets into kernel structs, [`ABSENT`] where the running kernel lacks the field.
///
/// Names: struct, then member. `sk_*` are members of `struct sock_common`, which full sockets, request
/// sockets and TIME_WAIT sockets all begin with, unless said otherwise.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelLayout {
    /// `sock_common.skc_family`, u16.
    pub sk_family: u32,
    /// `sock_common.skc_state`, u8.
    pub sk_state: u32,
    /// `sock_common.skc_num`, u16, local port in host order.
    pub sk_num: u32,
    /// `sock_common.skc_dport`, u16, remote port in network order.
    pub sk_dport: u32,
    /// `sock_common.skc_rcv_saddr`, local IPv4 address in network order.
    pub sk_rcv_saddr: u32,
    /// `sock_common.skc_daddr`, remote IPv4 address in network order.
    pub sk_daddr: u32,
    /// `sock_common.skc_v6_rcv_saddr`; absent without CONFIG_IPV6.
    pub sk_v6_rcv_saddr: u32,
    /// `sock_common.skc_v6_daddr`; absent without CONFIG_IPV6.
    pub sk_v6_daddr: u32,
    /// `sock_common.skc_net.net`, pointer to `struct net`; absent without CONFIG_NET_NS.
    pub sk_net: u32,
    /// `sock.sk_protocol`, u16 since Linux 5.6. Full sockets only.
    pub sk_protocol: u32,
    /// `sock.sk_shutdown`, u8. Full sockets only.
    pub sk_shutdown: u32,
    /// `sock.sk_cgrp_data.cgroup` (5.15+) or `.val` (before), pointer to `struct cgroup`. Full sockets only.
    pub sk_cgroup: u32,
    /// `inet_sock.inet_sport`, u16, local port in network order, kept after the port was given back. Full
    /// sockets only.
    pub inet_sport: u32,
    /// `tcp_sock.copied_seq`, u32: the next byte the application has not read.
    pub tcp_copied_seq: u32,
    /// `tcp_sock.rcv_nxt`, u32: the next byte expected from the peer.
    pub tcp_rcv_nxt: u32,
    /// `tcp_sock.write_seq`, u32: the end of what the application wrote.
    pub tcp_write_seq: u32,
    /// `tcp_sock.snd_una`, u32: the first byte not acknowledged.
    pub tcp_snd_una: u32,
    /// `tcp_sock.snd_nxt`, u32: the first byte not sent.
    pub tcp_snd_nxt: u32,
    /// `tcp_sock.lsndtime`, u32, low bits of `jiffies` when data was last sent.
    pub tcp_lsndtime: u32,
    /// `tcp_sock.tcp_clock_cache`, u64, `ktime_get_ns()` when the last packet was processed or sent.
    pub tcp_clock_cache: u32,
    /// `tcp_sock.bytes_received`, u64.
    pub tcp_bytes_received: u32,
    /// `tcp_sock.bytes_sent`, u64, retransmissions included.
    pub tcp_bytes_sent: u32,
    /// `net.ns.inum`, u32.
    pub net_inum: u32,
    /// `cgroup.self`, the embedded `struct cgroup_subsys_state`.
    pub cgroup_self: u32,
    /// `cgroup.self.parent`, pointer to the parent's `cgroup_subsys_state`.
    pub cgroup_parent: u32,
    /// `cgroup.kn`, pointer to `struct kernfs_node`.
    pub cgroup_kn: u32,
    /// `kernfs_node.id`, u64: the inode number a user sees on the cgroup's directory.
    pub kn_id: u32,
    /// `sk_buff.head`, pointer to the packet buffer.
    pub skb_head: u32,
    /// `sk_buff.transport_header`, u16 offset from `head`.
    pub skb_transport_header: u32,
    /// `sk_buff.network_header`, u16 offset from `head`.
    pub skb_network_header: u32,
    /// `sk_buff.dev`, pointer to `struct net_device`.
    pub skb_dev: u32,
    /// `sk_buff._skb_refdst`, pointer to `struct dst_entry` with a flag in bit 0.
    pub skb_refdst: u32,
    /// `net_device.nd_net.net`, pointer to `struct net`.
    pub dev_net: u32,
    /// `rtable.rt_type`, u16. A `dst_entry` of an IPv4 packet is the start of an `rtable`.
    pub rt_type: u32,
    /// `rt6_info.rt6i_flags`, u32; absent without CONFIG_IPV6.
    pub rt6_flags: u32,
    /// `task_struct.flags`, u32.
    pub task_flags: u32,
}

impl KernelLayout {
    /// A kernel about which nothing is known.
    pub const UNKNOWN: Self = Self {
        sk_family: ABSENT,
        sk_state: ABSENT,
        sk_num: ABSENT,
        sk_dport: ABSENT,
        sk_rcv_saddr: ABSENT,
        sk_daddr: ABSENT,
        sk_v6_rcv_saddr: ABSENT,
        sk_v6_daddr: ABSENT,
        sk_net: ABSENT,
        sk_protocol: ABSENT,
        sk_shutdown: ABSENT,
        sk_cgroup: ABSENT,
        inet_sport: ABSENT,
        tcp_copied_seq: ABSENT,
        tcp_rcv_nxt: ABSENT,
        tcp_write_seq: ABSENT,
        tcp_snd_una: ABSENT,
        tcp_snd_nxt: ABSENT,
        tcp_lsndtime: ABSENT,
        tcp_clock_cache: ABSENT,
        tcp_bytes_received: ABSENT,
        tcp_bytes_sent: ABSENT,
        net_inum: ABSENT,
        cgroup_self: ABSENT,
        cgroup_parent: ABSENT,
        cgroup_kn: ABSENT,
        kn_id: ABSENT,
        skb_head: ABSENT,
        skb_transport_header: ABSENT,
        skb_network_header: ABSENT,
        skb_dev: ABSENT,
        skb_refdst: ABSENT,
        dev_net: ABSENT,
        rt_type: ABSENT,
        rt6_flags: ABSENT,
        task_flags: ABSENT,
    };
}

const _: () = assert!(size_of::<KernelLayout>() == 36 * 4);
crate::pod!(KernelLayout);
