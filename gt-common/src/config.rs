//! What the daemon decides before the programs load; constant to the verifier.

use crate::connection::Limits;

/// Read-only settings of the kernel programs.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Kernel address of `page_offset_base` and `vmemmap_base` (x86-64), from which the address of a page's
    /// bytes follows; 0 where they are not known, and then received bytes in pages are not looked at.
    pub page_offset_base: u64,
    /// See `page_offset_base`.
    pub vmemmap_base: u64,
    /// Inode number of the network namespace of the host, which never decides an owner.
    pub host_netns: u32,
    /// 1 where a socket's cgroup tells its pod (cgroup v2 only), 0 on v1 and hybrid hosts.
    pub cgroup_owner: u32,
    /// Limits of the judgement.
    pub limits: Limits,
    /// 1 where `tcp_reset` is given the packet (5.11 and newer), so that a kprobe can tell an RST from other
    /// causes.
    pub reset_has_packet: u32,
}

const _: () = assert!(size_of::<Config>() == 40);
crate::pod!(Config);
