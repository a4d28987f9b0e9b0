//! What the daemon decides before the programs load; constant to the verifier.

/// Read-only settings of the kernel programs.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Inode number of the network namespace of the host, which never decides an owner.
    pub host_netns: u32,
    /// 1 where a socket's cgroup tells its pod (cgroup v2 only), 0 on v1 and hybrid hosts.
    pub cgroup_owner: u32,
}

const _: () = assert!(size_of::<Config>() == 8);
crate::pod!(Config);
