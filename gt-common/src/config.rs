//! What the daemon decides before the programs load; constant to the verifier.

use crate::connection::Limits;

/// Read-only settings of the kernel programs.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Inode number of the network namespace of the host, which never decides an owner.
    pub host_netns: u32,
    /// 1 where a socket's cgroup tells its pod (cgroup v2 only), 0 on v1 and hybrid hosts.
    pub cgroup_owner: u32,
    /// Limits of the judgement.
    pub limits: Limits,
    /// 1 where `tcp_reset` is given the packet (5.11 and newer), so that a kprobe can tell an RST from other
    /// causes.
    pub reset_has_packet: u32,
    /// 1 where a program can look at the system call it runs in (`bpf_task_pt_regs`, 5.15 and newer).
    pub knows_syscall: u32,
}

const _: () = assert!(size_of::<Config>() == 28);
crate::pod!(Config);
