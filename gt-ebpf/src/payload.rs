//! The first bytes that a peer sent, from the buffer of the application that is reading them.
//!
//! `tcp_rcv_space_adjust` is called after bytes were copied to the reader, within its system call: the call's
//! arguments lead to the buffer. Readers without such a call (io_uring, splice, the kernel itself) leave the
//! protocol unknown.

use aya_ebpf::helpers::generated;
use gt_common::connection::{Protocol, recognize};

use crate::{
    layout::knows_syscall,
    mem::{Mem as _, Typed},
};

/// Numbers of the calls that read, and places in `struct pt_regs`.
#[cfg(bpf_target_arch = "x86_64")]
mod call {
    pub(super) const READ: u32 = 0;
    pub(super) const READV: u32 = 19;
    pub(super) const RECVFROM: u32 = 45;
    pub(super) const RECVMSG: u32 = 47;
    pub(super) const RECVMMSG: u32 = 299;
    /// `orig_ax` and `si`, arch/x86/include/asm/ptrace.h.
    pub(super) const NUMBER: u32 = 15 * 8;
    pub(super) const SECOND: u32 = 13 * 8;
}

#[cfg(not(bpf_target_arch = "x86_64"))]
mod call {
    pub(super) const READ: u32 = 63;
    pub(super) const READV: u32 = 65;
    pub(super) const RECVFROM: u32 = 207;
    pub(super) const RECVMSG: u32 = 212;
    pub(super) const RECVMMSG: u32 = 243;
    /// `syscallno` and `regs[1]`, arch/arm64/include/asm/ptrace.h.
    pub(super) const NUMBER: u32 = 35 * 8;
    pub(super) const SECOND: u32 = 8;
}

/// `msg_iov` of a user's `struct msghdr`, `iov_base` of a `struct iovec` (64-bit).
const MSG_IOV: u64 = 16;
const IOV_BASE: u64 = 0;

/// What is spoken, by the first four bytes of the first read.
#[inline(always)]
pub(crate) fn protocol() -> Protocol {
    if !knows_syscall() {
        return Protocol::Unknown;
    }
    let regs = unsafe {
        let task = generated::bpf_get_current_task_btf();
        generated::bpf_task_pt_regs(task.cast()) as *const u8
    };
    let second = Typed::get::<u64>(regs, call::SECOND);
    let buffer = match Typed::get::<u64>(regs, call::NUMBER) as u32 {
        call::READ | call::RECVFROM => second,
        call::READV => user::<u64>(second + IOV_BASE),
        call::RECVMSG | call::RECVMMSG => user::<u64>(user::<u64>(second + MSG_IOV) + IOV_BASE),
        _ => return Protocol::Unknown,
    };
    recognize(user::<u32>(buffer).to_ne_bytes())
}

/// Reads the application's memory; what cannot be read is zero.
#[inline(always)]
fn user<T: Copy>(address: u64) -> T {
    let mut value = core::mem::MaybeUninit::<T>::uninit();
    unsafe {
        generated::bpf_probe_read_user(
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
            address as *const core::ffi::c_void,
        );
        value.assume_init()
    }
}
